"""Shapes are tried before they are accepted: one tenant's take nothing from the others', and what was found
is remembered."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from engine.api import ModelRecord
from engine.queue import redis_keys
from engine.trials import client as asking
from engine.trials import host_process as trier_module
from engine.trials import server as desk_module
from engine.trials.client import ASKING_PER_TENANT_MAX, ShapeTrials
from engine.trials.server import TrialServer
from engine.trials.trial_queue import WAITING_MAX, WAITING_PER_TENANT_MAX, TrialQueue
from tests.engine.builders import FINGERPRINT, TENANT
from tests.support.patience import patience, wait_until
from tests.support.redis import Redis

POOL = "default"


def test_tenants_come_in_turn_one_trial_each():
    """Whoever has many waits for its own, not the others for it."""
    lanes = TrialQueue()
    for name in ("a1", "a2", "a3"):
        lanes.add("a", name)
    lanes.add("b", "b1")
    lanes.add("b", "b1")
    assert [lanes.take(), lanes.take(), lanes.take()] == [("a", "a1"), ("b", "b1"), None]
    lanes.done("b")
    assert lanes.take() is None
    lanes.done("a")
    assert lanes.take() == ("a", "a2")


def test_what_waits_is_bounded():
    """By tenant, and in all."""
    lanes = TrialQueue()
    assert all(lanes.add("a", str(name)) for name in range(WAITING_PER_TENANT_MAX))
    assert not lanes.add("a", "more")
    tenants = (f"t{number}" for number in count())
    while len(lanes) < WAITING_MAX:
        assert lanes.add(next(tenants), "x")
    assert not lanes.add("late", "x")


def test_what_waits_is_bounded_by_numbers_that_stand():
    """16 of a tenant and 256 in all; the same one asked for twice waits once."""
    lanes = TrialQueue()
    assert [lanes.add("a", str(number)) for number in range(17)] == [True] * 16 + [False]
    for tenant in range(15):
        assert all(lanes.add(f"t{tenant}", str(number)) for number in range(16))
    assert len(lanes) == 256
    assert not lanes.add("late", "x")
    again = TrialQueue()
    assert [again.add("a", "x"), again.add("a", "x"), len(again)] == [True, True, 1]


@pytest.mark.parametrize(("processors", "at_once"), [(None, 2), (1, 2), (5, 2), (6, 3), (8, 4), (64, 4)])
def test_shapes_are_tried_on_half_of_the_processors(
    processors: int | None, at_once: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Two at least, so that one that is slow holds up nobody, and four at most."""
    monkeypatch.setattr(desk_module.os, "cpu_count", lambda: processors)
    nobody: Any = None
    assert TrialServer(settings, nobody).__dict__["_at_once"] == at_once


HOST = """
import json, os, sys
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps({"n": json.loads(line)["n"], "problem": " ".join(os.environ)}), flush=True)
"""


async def test_what_tries_shapes_finds_no_secret_and_no_address(home: Path, monkeypatch: pytest.MonkeyPatch):
    """It runs what strangers wrote. Its environment is a list of names that it needs, and what it complains
    of is for its user alone."""
    for name in ("PARLEY_SECRET", "PARLEY_REDIS_URL", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "HF_TOKEN"):
        monkeypatch.setenv(name, "canary")
    start = asyncio.create_subprocess_exec

    async def started(*argv: str, **facts: Any) -> asyncio.subprocess.Process:
        assert argv[1:3] == ("-m", "engine.trials.host")
        return await start(argv[0], "-c", HOST, **facts)

    monkeypatch.setattr(trier_module.asyncio, "create_subprocess_exec", started)
    log = home / "logs" / "trials.log"
    found = trier_module.TrialRunner(home, log)
    try:
        names = await found.problem("x")
        assert names is not None
        assert {"PATH", "HF_HUB_OFFLINE"} <= set(names.split())
        assert set(names.split()) <= {
            *trier_module.KEPT,
            *trier_module.QUIET,
            *trier_module.SMALL,
            "LC_CTYPE",
        }
        assert not [
            name for name in trier_module.KEPT if "PARLEY" in name or "TOKEN" in name or "PROXY" in name
        ]
        assert log.stat().st_mode & 0o077 == 0
    finally:
        await found.close()


@dataclass
class StubTrier:
    """Finds what it is told to; holds what begins with `slow` until it is let go."""

    going: asyncio.Event = field(default_factory=asyncio.Event)
    tried: list[str] = field(default_factory=list[str])

    async def problem(self, packed: str) -> str | None:
        """The shape's own text."""
        self.tried.append(packed)
        if packed.startswith("slow"):
            await self.going.wait()
        return {"bad": "pattern: ambiguous", "lost": None}.get(packed.split()[-1], "")


@asynccontextmanager
async def desk(settings: Settings, client: Any, trier: Any) -> AsyncGenerator[None]:
    """A node that tries what is asked."""
    task = asyncio.create_task(TrialServer(settings, client).serve(trier, FINGERPRINT))
    try:
        yield
    finally:
        await cancel_tasks([task])


async def test_what_is_found_is_answered_and_remembered(redis: Redis, settings: Settings):
    """In the gateway and in the pool; by the shape and the model, whoever asks."""
    trier = StubTrier()
    async with desk(settings, redis, trier):
        found = await ShapeTrials(redis).refusal(POOL, FINGERPRINT, "a", "bad")
        assert found is not None
        assert (found.code, found.message) == (
            "bad_request",
            "options.response_format: pattern: ambiguous",
        )
        gateway = ShapeTrials(redis)
        for tenant in ("a", "b"):
            assert await gateway.refusal(POOL, FINGERPRINT, tenant, "good") is None
            assert await ShapeTrials(redis).refusal(POOL, FINGERPRINT, tenant, "bad") == found
    assert trier.tried == ["bad", "good"]
    client: Any = redis
    assert await client.keys("*}trial*") == []
    await client.flushall()
    assert await gateway.refusal(POOL, FINGERPRINT, "a", "good") is None, "it knew"


async def test_a_flood_of_one_tenant_holds_up_no_other(redis: Redis, settings: Settings):
    """Its shapes are tried one after the other, however many it has, and more than some are not taken."""
    trier, gateway = StubTrier(), ShapeTrials(redis)
    async with desk(settings, redis, trier):
        flood = [
            asyncio.create_task(gateway.refusal(POOL, FINGERPRINT, "flood", f"slow {number} bad"))
            for number in range(ASKING_PER_TENANT_MAX)
        ]
        await wait_until(lambda: len(trier.tried) > 0)
        refused = await gateway.refusal(POOL, FINGERPRINT, "flood", "one more")
        assert refused is not None
        assert (refused.code, refused.retry, refused.scope) == ("rate_limited", True, "tenant")
        assert await gateway.refusal(POOL, FINGERPRINT, "other", "good") is None
        assert len(trier.tried) == 2
        trier.going.set()
        assert {found.code for found in await asyncio.gather(*flood) if found} == {"bad_request"}


async def test_who_wants_the_same_shape_waits_for_no_flood(redis: Redis, settings: Settings):
    """One who knows what shape another uses puts it at the end of his own line."""
    trier, gateway = StubTrier(), ShapeTrials(redis)
    async with desk(settings, redis, trier):
        shapes = [*(f"slow {number}" for number in range(ASKING_PER_TENANT_MAX - 1)), "good"]
        flood = [
            asyncio.create_task(gateway.refusal(POOL, FINGERPRINT, "flood", packed)) for packed in shapes
        ]
        await wait_until(lambda: len(trier.tried) > 0)
        assert await ShapeTrials(redis).refusal(POOL, FINGERPRINT, "other", "good") is None
        trier.going.set()
        assert await asyncio.gather(*flood) == [None] * len(flood)
    assert trier.tried.count("good") == 1


async def test_without_a_verdict_the_sender_tries_again(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Where nobody tries, or a trial comes to nothing: retryable, and nothing is remembered."""
    monkeypatch.setattr(asking, "ASK_SECONDS_MAX", 0.6)
    gateway, trier = ShapeTrials(redis), StubTrier()
    found = await gateway.refusal(POOL, FINGERPRINT, TENANT, "good")
    assert found is not None
    assert (found.code, found.retry) == ("overloaded", True)
    client: Any = redis
    await client.flushall()
    async with desk(settings, redis, trier):
        found = await gateway.refusal(POOL, FINGERPRINT, TENANT, "lost")
        assert found is not None
        assert found.code == "overloaded"
        assert await gateway.refusal(POOL, FINGERPRINT, TENANT, "good") is None
    assert await client.exists(redis_keys.trials(POOL, FINGERPRINT)) == 0


async def test_another_version_of_the_model_is_tried_with_its_own_vocabulary(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A node serves the version that is registered now, without a restart."""
    monkeypatch.setattr(desk_module, "MODEL_SECONDS", 0.02)
    current = ModelRecord("tiny", "1", "old", Path("/old"), 10)

    async def model(_: TrialServer) -> ModelRecord:
        return current

    triers: list[Path] = []

    class Counted(StubTrier):
        def __init__(self, folder: Path, log_path: Path) -> None:
            super().__init__()
            triers.append(folder)

        async def close(self) -> None:
            """Nothing to end."""

    monkeypatch.setattr(TrialServer, "_model", model)
    monkeypatch.setattr(desk_module, "TrialRunner", Counted)
    task = asyncio.create_task(TrialServer(settings, redis).run())
    assert await ShapeTrials(redis).refusal(POOL, "old", TENANT, "good") is None
    current = ModelRecord("tiny", "2", "new", Path("/new"), 10)
    assert await ShapeTrials(redis).refusal(POOL, "new", TENANT, "good") is None
    await cancel_tasks([task])
    assert triers == [Path("/old"), Path("/new")]


# Says what is in its environment; at `die` it says no more, but lives on.
A_HOST = """
import json, os, sys, time
print('{"ready": true}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["shape"] == "die":
        os.close(1)
        time.sleep(60)
    print(json.dumps({"n": request["n"], "problem": f"{os.getpid()} {sorted(os.environ)}"}), flush=True)
"""


async def test_a_host_that_dies_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What it was trying comes to nothing, it is ended, and the next shape is tried. No host holds a
    secret."""
    monkeypatch.setattr(trier_module, "HOST", ("-c", A_HOST))
    monkeypatch.setenv("PARLEY_REDIS_URL", "secret")
    trier = trier_module.TrialRunner(tmp_path, tmp_path / "trials.log")
    try:
        async with patience():
            first = await trier.problem("any")
            assert first is not None
            assert "PATH" in first
            assert "PARLEY" not in first
            assert await trier.problem("die") is None
            again = await trier.problem("any")
            assert again is not None
            assert again.split()[0] != first.split()[0]
            await wait_until(lambda: not Path(f"/proc/{first.split()[0]}").exists())
    finally:
        await trier.close()
