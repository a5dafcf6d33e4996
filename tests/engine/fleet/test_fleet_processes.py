"""`parley fleet` with real processes (scripted engine): desired state is reached again whatever dies."""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import psutil
import pytest

from billing.pools import create_pool, delete_pool, drain_pool, edit_pool
from billing.tables.pools import PoolRow
from core.sql.database import Database
from engine.fleet.states import read_states
from engine.node.reports import PoolNodes
from tests.engine.node.supervised import crew as crew
from tests.engine.workers import PoolWorkers
from tests.support.patience import LONG_TEST_SECONDS, START_SECONDS, wait_until
from tests.support.platform import command_line, processes_of
from tests.support.processes import begun, parley

pytestmark = pytest.mark.timeout(LONG_TEST_SECONDS)


class Fleet:
    """A database with a pool, and the processes of `parley fleet` on it."""

    def __init__(self, crew: PoolWorkers, db: Database) -> None:
        self.crew, self.db = crew, db
        self._begun = list[object]()  # a fork is killed with its last holder

    async def begins(self) -> None:
        """One more `parley fleet`."""
        log = self.crew.settings.home / "fleet.log"
        self._begun.append(await begun(parley("fleet"), log=log))

    def processes(self, words: str) -> list[psutil.Process]:
        """Ours with these words on their command line, without leashes."""
        found = processes_of(self.crew.settings.home)
        return [
            each for each in found if words in command_line(each) and "leash_main" not in command_line(each)
        ]

    def kill(self, words: str) -> None:
        """SIGKILL one, by its id."""
        os.kill(self.processes(words)[0].pid, signal.SIGKILL)

    async def has(self, workers: int) -> None:
        """Wait until there are so many, all ready, as SQL says too."""

        async def reached() -> bool:
            alive = [view for view in await self.crew.queue.workers() if view.alive]
            reports = await PoolNodes(self.crew.queue).reports()
            (row,) = await read_states(self.db) or [None]
            if row is None or len(reports) != 1 or reports[0].workers != workers or len(alive) != workers:
                return False
            return (row.workers, row.running, row.ready, row.why) == (workers, workers, workers, "")

        await self.until(reached)

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        """With patience for starts."""
        await wait_until(reached, START_SECONDS)


@asynccontextmanager
async def running(crew: PoolWorkers, workers: int) -> AsyncGenerator[Fleet]:
    """A pool that should have `workers` workers, under one controller; nothing of it may be left."""
    db = Database(crew.settings.database_endpoint)
    fleet = Fleet(crew, db)
    try:
        await create_pool(
            db, PoolRow(pool="default", model="tiny", version="1", workers=workers, labels={}, made_ms=1)
        )
        await fleet.begins()
        yield fleet
    finally:
        for each in fleet.processes("core.cli fleet"):
            each.terminate()
        await wait_until(
            lambda: not [each for each in processes_of(crew.settings.home) if each.pid != os.getpid()],
            START_SECONDS,
        )
        await db.close()


async def test_desired_state_is_reached_whatever_dies(crew: PoolWorkers):
    """SIGKILL of the supervisor, of the controller and of a worker, and a change of the pool at each step: a
    request that runs all the while goes on and ends once."""
    async with running(crew, 1) as fleet:
        await fleet.has(1)
        id = await crew.send(max_tokens=60)
        fleet.kill("core.cli supervisor")
        await fleet.has(1)
        await edit_pool(fleet.db, "default", {"workers": 2})
        await fleet.has(2)
        fleet.kill("engine.main worker")
        await edit_pool(fleet.db, "default", {"workers": 1})
        await fleet.has(1)
        await fleet.begins()  # a spare, which acts when the first is gone
        fleet.kill("core.cli fleet")
        await edit_pool(fleet.db, "default", {"workers": 2})
        await fleet.has(2)
        await crew.ended(id)
        kinds = await crew.kinds(id)
        assert (kinds.count("end"), kinds[-1]) == (1, "end")


async def test_a_drained_pool_has_no_process(crew: PoolWorkers):
    """Its workers serve what there is, then go, with their supervisor; deleted, it has no row of state."""
    async with running(crew, 1) as fleet:
        await fleet.has(1)
        id = await crew.send(max_tokens=20)
        await drain_pool(fleet.db, "default")
        await crew.ended(id)

        async def gone() -> bool:
            return not fleet.processes("core.cli supervisor")

        await fleet.until(gone)
        await delete_pool(fleet.db, "default")

        async def forgotten() -> bool:
            return await read_states(fleet.db) == []

        await fleet.until(forgotten)


async def test_a_pool_that_is_larger_than_the_machine_says_so(
    crew: PoolWorkers, monkeypatch: pytest.MonkeyPatch
):
    """It gets what there is room for."""
    monkeypatch.setenv("PARLEY_FLEET_WORKERS_MAX", "1")
    async with running(crew, 3) as fleet:

        async def told() -> bool:
            rows = await read_states(fleet.db)
            return [(row.running, row.ready, row.why) for row in rows] == [
                (
                    1,
                    1,
                    "this machine has no room for more workers; pool default wants 3: resize it to at most 1",
                )
            ]

        await fleet.until(told)
