"""A pool changes its version under load, with real processes (scripted engine): no request fails, and the
version in use has a ready worker at all times."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from billing.pools import WantedVersion, read_pools, use_version
from core.clock import now_ms
from core.tasks import cancel_tasks
from engine.fleet.states import read_states
from engine.models.registry import ModelRecord, save
from engine.queue.types import WorkerView
from engine.request import PriorityClass
from tests.engine.builders import FINGERPRINT
from tests.engine.fleet.fleet_processes import Fleet, running
from tests.engine.node.supervised import crew as crew
from tests.engine.workers import PoolWorkers
from tests.support.patience import LONG_TEST_SECONDS

pytestmark = pytest.mark.timeout(LONG_TEST_SECONDS)

STREAMS, BULK = 8, 30
FINGERPRINTS = {"1": FINGERPRINT, "2": "f2"}


class Load:
    """Senders that go by the version in use, and an eye on its workers."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.ends = fleet, list[dict[str, object]]()
        self.looks = self.looks_without = 0
        self.sent = dict.fromkeys(FINGERPRINTS, 0)

    async def stream(self) -> None:
        """One request after the other, for ever."""
        while True:
            await self.request(max_tokens=40)

    async def request(self, **options: Any) -> None:
        """One request to its end."""
        version = await self.version()
        self.sent[version] += 1
        id = await self.fleet.crew.send(fingerprint=FINGERPRINTS[version], **options)
        self.ends.append(await self.fleet.crew.ended(id, LONG_TEST_SECONDS))

    async def watch(self) -> None:
        """Look for ready workers of the version in use, for ever."""
        while True:
            alive = [each.fingerprint for each in await self.workers()]
            self.looks += 1
            self.looks_without += FINGERPRINTS[await self.version()] not in alive
            await asyncio.sleep(0.05)

    async def workers(self) -> list[WorkerView]:
        """Those that take work."""
        return [view for view in await self.fleet.crew.queue.workers() if view.alive]

    async def version(self) -> str:
        """The one in use."""
        return (await read_pools(self.fleet.db))[0].version

    async def settles(self, version: str, workers: int) -> None:
        """Until all workers are of this version, and the state says so."""

        async def reached() -> bool:
            (state,) = await read_states(self.fleet.db)
            fingerprints = [each.fingerprint for each in await self.workers()]
            only = [{"version": version, "workers": workers, "ready": workers, "requests": 0, "until_ms": 0}]
            return fingerprints == [FINGERPRINTS[version]] * workers and state.versions == only

        await self.fleet.until(reached)


@asynccontextmanager
async def loaded(crew: PoolWorkers, workers: int) -> AsyncGenerator[Load]:
    """A pool of two versions under load; at the end everything that was sent has ended well."""
    async with running(crew, workers) as fleet:
        folder = crew.settings.home / "models" / "tiny" / "1"
        await save(fleet.db, ModelRecord("tiny", "2", FINGERPRINTS["2"], folder, 4096), {}, now_ms())
        await fleet.has(workers)
        load = Load(fleet)
        streams = [asyncio.create_task(load.stream()) for _ in range(STREAMS)]
        bulk = [
            asyncio.create_task(load.request(max_tokens=100, priority=PriorityClass.BULK))
            for _ in range(BULK)
        ]
        watch = asyncio.create_task(load.watch())
        try:
            yield load
            await cancel_tasks(streams)
            await asyncio.gather(*bulk)
        finally:
            await cancel_tasks([watch, *streams, *bulk])
    assert {each["reason"] for each in load.ends} == {"length"}
    assert all(load.sent.values())


async def test_a_version_is_switched_and_rolled_back_without_an_outage(crew: PoolWorkers):
    """With a worker killed on the way."""
    async with loaded(crew, 2) as load:
        await use_version(load.fleet.db, "default", WantedVersion("2"))
        await load.settles("2", 2)
        await use_version(load.fleet.db, "default", WantedVersion("1"))
        load.fleet.kill("engine.main worker")
        await load.settles("1", 2)
    assert (load.looks_without, load.looks > 20) == (0, True)


@pytest.mark.long
async def test_whatever_is_killed_a_switch_goes_on(crew: PoolWorkers):
    """The supervisor, which takes all workers with it, and the controller, for which a spare goes on: no
    request fails."""
    async with loaded(crew, 2) as load:
        await use_version(load.fleet.db, "default", WantedVersion("2"))
        load.fleet.kill("core.cli supervisor")
        await load.fleet.begins()
        await load.settles("2", 2)
        await use_version(load.fleet.db, "default", WantedVersion("1"))
        load.fleet.kill("core.cli fleet")
        await load.settles("1", 2)


async def test_a_version_that_does_not_load_is_told_and_can_be_given_up(crew: PoolWorkers):
    """The version in use serves all the while; nothing is switched."""
    async with running(crew, 1) as fleet:
        await fleet.has(1)
        nowhere = crew.settings.home / "nowhere"
        await save(fleet.db, ModelRecord("tiny", "2", FINGERPRINTS["2"], nowhere, 4096), {}, now_ms())
        (before,) = await crew.queue.workers()
        await use_version(fleet.db, "default", WantedVersion("2"))

        async def told() -> bool:
            (state,) = await read_states(fleet.db)
            return state.why.startswith(
                "version 2 does not start, 1 goes on: worker 1: its model has not loaded"
            )

        await fleet.until(told)
        assert (await read_pools(fleet.db))[0].version == "1"
        await use_version(fleet.db, "default", WantedVersion("1"))
        await fleet.has(1)
        assert [each.worker for each in await crew.queue.workers()] == [before.worker]


async def test_on_one_place_a_gap_is_waited_through(crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch):
    """Accepted, the old version ends what it has; requests of the new one wait for its worker. None fails."""
    monkeypatch.setenv("PARLEY_FLEET_WORKERS_MAX", "1")
    async with loaded(crew, 1) as load:
        await use_version(load.fleet.db, "default", WantedVersion("2"))

        async def waits() -> bool:
            (state,) = await read_states(load.fleet.db)
            return "nobody would serve for about" in state.why

        await load.fleet.until(waits)
        await use_version(load.fleet.db, "default", WantedVersion("2", accept_gap=True))
        await load.settles("2", 1)
    assert load.looks_without > 0
