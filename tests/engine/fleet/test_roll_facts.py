"""What a change of version needs to know: pinned requests, memory; looked at only while it matters."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import NoPermissionError

from core.configuration.settings import Settings
from core.sql.database import Database
from engine.fleet import roll_facts
from engine.fleet.local_hands import LocalHands
from engine.fleet.next_steps import NextStep, StepKind
from engine.fleet.observed import NextWorkerFit, PinnedRequests, VersionWorkers
from engine.fleet.roll_facts import ACL, RollFacts, gpu_fit, memory_fit
from engine.fleet.version_counts import LINGER_MS
from engine.models.registry import ModelRecord, save
from engine.node.reports import (
    NodeReport,
    PoolNodes,
    WorkerCounts,
    WorkerProcessState,
    WorkerReport,
    counts_of,
)
from engine.queue import living_requests
from engine.queue.client import PoolQueue
from tests.engine.builders import TENANT
from tests.engine.fleet.world import Target
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis

GIB = 1 << 30
NOW_MS = 5_000_000
TARGET = Target("default", 2, version="2", generation=7)


def report(*versions: str) -> NodeReport:
    """A supervisor with workers of these versions."""
    slots = [
        WorkerReport(at, f"w{at}", 1, WorkerProcessState.READY, version=version)
        for at, version in enumerate(versions)
    ]
    return NodeReport("s", "n", 1, slots)


@pytest.fixture
async def facts(redis: Redis, sqlite: Database, settings: Settings, home: Path) -> RollFacts:
    """Two versions; the pool has the second one in use."""
    for at, version in enumerate("12"):
        folder = home / version
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"x" * 1000)
        await save(sqlite, ModelRecord("tiny", version, f"f{version}", folder, 4096), {}, at + 1)
    return RollFacts(settings.model_copy(update={"node": "n"}), sqlite, redis)


async def test_requests_of_old_versions_are_counted(
    facts: RollFacts, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Page by page, with the last deadline; those of the version in use pin nothing."""
    monkeypatch.setattr(living_requests, "PAGE", 2)
    crew = PoolWorkers(redis, settings)
    ids = [await crew.send(fingerprint=each) for each in ("f1", "f2", "f1", "f1", "f9")]
    await redis.zadd(
        "{p:default}deadlines", {b"\xff": 1, "t:gone": 2, f"{TENANT}:{ids[0]}": 9_000_000_000_000}
    )
    pinned, _ = await facts.see(TARGET, [report("1", "2")], NOW_MS)
    assert pinned == {"1": PinnedRequests(3, 9_000_000_000_000)}


async def test_it_is_looked_at_until_nothing_old_is_about(facts: RollFacts, monkeypatch: pytest.MonkeyPatch):
    """For a moment after the last one, and after a change: gateways may still send to an old version."""
    looks = 0

    async def pinned_requests(*_: Any) -> tuple[dict[str, int], dict[str, int]]:
        nonlocal looks
        looks += 1
        return {}, {}

    monkeypatch.setattr(roll_facts, "pinned_requests", pinned_requests)
    for at_ms, versions, looked in (
        (0, "12", 1),
        (LINGER_MS, "12", 2),
        (LINGER_MS, "2", 3),
        (LINGER_MS, "2", 3),
    ):
        pinned, _ = await facts.see(TARGET, [report(*versions)], NOW_MS + at_ms)
        assert looks == looked
        assert pinned == ({"1": PinnedRequests(0, 0, NOW_MS)} if looked > 0 and pinned else {})
    await facts.see(replace(TARGET, generation=8), [report("2")], NOW_MS + LINGER_MS)
    assert looks == 4


async def test_a_redis_user_of_an_older_release_keeps_old_workers(
    facts: RollFacts, monkeypatch: pytest.MonkeyPatch
):
    """Who cannot count says what to do."""

    async def denied(*_: Any) -> None:
        raise NoPermissionError("no")

    monkeypatch.setattr(roll_facts, "pinned_requests", denied)
    pinned, _ = await facts.see(TARGET, [report("1", "2")], NOW_MS)
    assert pinned == {"1": PinnedRequests(0, why=ACL)}


async def test_memory_is_looked_at_for_the_next_version(facts: RollFacts, monkeypatch: pytest.MonkeyPatch):
    """Its weights and a worker's KV, against what is free."""
    target = replace(TARGET, version="1", next_version="2")
    monkeypatch.setattr(roll_facts.psutil, "virtual_memory", lambda: type("Free", (), {"available": 999}))
    _, fit = await facts.see(target, [report("1")], NOW_MS)
    assert fit.beside == "a worker of it takes 0.5 GiB and 0.0 GiB are free"
    _, fit = await facts.see(replace(target, next_version="3"), [report("1")], NOW_MS)
    assert fit == NextWorkerFit()


def test_a_worker_fits_beside_the_others_or_instead_of_one():
    """Weights that do not lie here are not known, and hold nothing up."""
    assert memory_fit(0, 9 * GIB, 0, 0) == memory_fit(2 * GIB, GIB, 3 * GIB, 0) == NextWorkerFit()
    beside = "a worker of it takes 3.0 GiB and 2.0 GiB are free"
    assert memory_fit(2 * GIB, GIB, 2 * GIB, GIB) == NextWorkerFit(beside)
    nowhere = memory_fit(2 * GIB, GIB, 2 * GIB, GIB - 1)
    assert nowhere == NextWorkerFit(beside, f"{beside}, 3.0 GiB in the place of another worker")
    assert gpu_fit(9 * GIB, 10 * GIB) == NextWorkerFit()
    assert (
        gpu_fit(10 * GIB, 10 * GIB).instead == "its weights are 10.0 GiB, a GPU of this machine has 10.0 GiB"
    )


async def test_the_same_version_by_another_name_goes_on(
    facts: RollFacts, redis: Redis, sqlite: Database, settings: Settings
):
    """Its workers serve the version in use: they are neither counted as old nor replaced, and more of them
    have the name in use."""
    await save(sqlite, ModelRecord("tiny", "2b", "f2", Path("/m"), 4096), {}, 9)
    nodes = PoolNodes(PoolQueue(redis, "default", settings))
    slots = [
        WorkerReport(at, f"w{at}", 1, WorkerProcessState.READY, version="2", fingerprint="f2")
        for at in range(2)
    ]
    await nodes.report(NodeReport("s", "elsewhere", 1, slots, workers=2, versions={"2": 2}, paid=2))
    hands = LocalHands(settings.model_copy(update={"fleet_workers_max": 4}), sqlite, redis, one_user=True)
    target = replace(TARGET, version="2b")
    seen = (await hands.observe([target])).pools["default"]
    assert seen.supervisors[0].versions == {"2b": VersionWorkers(2, 2, 2)}
    assert all(not each.requests for each in seen.pinned.values())
    step = NextStep("default", StepKind.RESIZE, 3, "s", versions={"2b": 3}, paid=3)
    await hands.act(step, target)  # type: ignore[arg-type]
    order = await nodes.next_order("s", 1, resizes=True)
    assert order is not None
    assert counts_of(order.worker) == WorkerCounts({"2": 2, "2b": 1}, 3)
    wanted = replace(target, next_version="2")
    assert (await hands.observe([wanted])).pools["default"].supervisors[0].versions == {
        "2": VersionWorkers(2, 2, 2)
    }
