"""Keeps workers running under attack: real `parley worker` processes, started again as soon as one ends.

`supervised` is the product's own supervisor. `forked` does what the supervisor does for the queue (an exit is
seen at once and its requests go back in line) for workers that are forks (forked.py), without the
supervisor's growing pauses between restarts: it is for kills by the thousand.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from billing.api import Quota
from chaos.installation.forked import Forked, spawn
from chaos.installation.testbed import SessionTestbed
from core.redis.client import RedisClient
from core.runtime.leash import LeashedProcess
from core.tasks import cancel_tasks
from engine.api import PoolQueue, Reaper

RELEASE_RETRY_SECONDS = 0.05


@asynccontextmanager
async def supervised(site: SessionTestbed, workers: int, **settings: object) -> AsyncGenerator[None]:
    """`parley supervisor` with this many workers."""
    running = await site.start(["-m", "core.cli", "supervisor", "--workers", str(workers)], **settings)
    try:
        yield
    finally:
        await running.stop()


@asynccontextmanager
async def forked(
    site: SessionTestbed, redis: RedisClient, workers: int, **settings: object
) -> AsyncGenerator[None]:
    """This many workers, and a reaper in this process."""
    queue = PoolQueue(redis, site.settings.pool, site.settings)
    reaper = Reaper(queue, Quota(redis, site.settings), site.settings.reap_interval_ms)
    keeper = _WorkerKeeper(queue, site, settings)
    reaping = asyncio.create_task(reaper.run())
    try:
        for _ in range(workers):
            keeper.add()
        yield
    finally:
        await keeper.end()
        await cancel_tasks([reaping])


class _WorkerKeeper:
    """Workers, each replaced when it ends."""

    def __init__(self, queue: PoolQueue, site: SessionTestbed, settings: Mapping[str, object]) -> None:
        self._queue = queue
        self._environment = site.environment(**settings)
        self._log = site.settings.home / "logs" / "workers.log"
        self._stopping = False
        self._places: set[asyncio.Task[None]] = set()
        self._running: set[Forked | LeashedProcess] = set()

    def add(self) -> None:
        """One more place."""
        self._places.add(asyncio.create_task(self._keep()))

    async def end(self) -> None:
        """Kill them all. Raises where a place could not be kept."""
        self._stopping = True
        for process in self._running:
            process.kill()
        await asyncio.gather(*self._places)

    async def _keep(self) -> None:
        """One after the other; what the ended one held is given back beside."""
        releases: set[asyncio.Task[None]] = set()
        while not self._stopping:
            name = f"chaos-{secrets.token_hex(4)}"
            argv = [sys.executable, "-m", "engine.main", "worker", "--name", name]
            process = await spawn(argv, self._environment, self._log)
            self._running.add(process)
            if self._stopping:
                process.kill()
            code = await process.wait()
            self._running.discard(process)
            releases.add(asyncio.create_task(self._release(name, code)))
        await asyncio.gather(*releases)

    async def _release(self, name: str, code: int) -> None:
        while not self._stopping:
            try:
                await self._queue.deregister(name, "lost" if code else "drain")
                return
            except (RedisError, OSError):
                await asyncio.sleep(RELEASE_RETRY_SECONDS)
