"""The processes of `parley fleet` and what they start, with a scripted engine."""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import psutil

from billing.pools import create_pool
from billing.tables.pools import PoolRow
from core.sql.database import Database
from engine.fleet.states import read_states
from engine.node.reports import PoolNodes
from tests.engine.workers import PoolWorkers
from tests.support.patience import START_SECONDS, wait_until
from tests.support.platform import command_line, processes_of
from tests.support.processes import begun, parley


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
