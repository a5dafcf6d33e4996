"""The supervisor: keeps a node's workers running, each on a leash, and the pool free of what they leave
behind.

It sees a worker's exit at once and gives the worker's requests back in the same moment, which is what makes
a crash a short pause for readers. It needs no GPU.
"""

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from redis.exceptions import RedisError

from billing.api import Quota
from core.errors import StartupError
from core.leash import LeashedProcess, spawn
from core.redis import Client
from core.settings import Settings
from core.tasks import end_tasks
from core.telemetry import logger
from engine import instruments
from engine.backends.environment import usable_cpus
from engine.queue import PoolQueue
from engine.reaper import Reaper

log = logger(__name__)

STABLE_SECONDS = 60.0
BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
RELEASE_TRIES = 20
RELEASE_RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a worker is started again. Pure: each exit gives the next state."""

    failures: int = 0

    def after_exit(self, ran_seconds: float) -> "Backoff":
        """A worker that ran for a while starts the count anew."""
        return Backoff(1 if ran_seconds >= STABLE_SECONDS else self.failures + 1)

    @property
    def seconds(self) -> float:
        """The first restart is immediate: a crash after a long run says nothing about the next start."""
        if self.failures <= 1:
            return 0.0
        return min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** (self.failures - 2))


class Supervisor:
    """Runs `workers` workers of one pool on this node."""

    def __init__(self, settings: Settings, redis: Client, workers: int) -> None:
        self._settings = settings
        self._workers = workers
        self._queue = PoolQueue(redis, settings.pool, settings)
        self._reaper = Reaper(self._queue, Quota(redis, settings), settings.reap_interval_ms)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then the workers drain and end."""
        reaping = asyncio.create_task(self._reaper.run())
        try:
            async with asyncio.TaskGroup() as group:
                for index in range(self._workers):
                    group.create_task(self._keep(index, stop))
        finally:
            await end_tasks([reaping])

    async def _keep(self, index: int, stop: asyncio.Event) -> None:
        backoff = Backoff()
        while not stop.is_set():
            name = f"{self._settings.node}-{index}-{secrets.token_hex(4)}"
            started = time.monotonic()
            code = await self._run_one(index, name, stop)
            await self._release(name, code)
            backoff = backoff.after_exit(time.monotonic() - started)
            if not stop.is_set():
                log.warning("worker ended", worker=name, code=code, restart_in=backoff.seconds)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(backoff.seconds):
                        await stop.wait()

    async def _run_one(self, index: int, name: str, stop: asyncio.Event) -> int:
        """One worker from its start to its end; its exit code."""
        logs = self._settings.home / "logs"
        argv = [sys.executable, "-m", "engine.main", "worker", "--name", name]
        try:
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = await spawn(argv, self._environment(os.environ), logs / f"worker-{index}.log")
        except (StartupError, OSError) as error:
            log.error("worker not started", worker=name, error=str(error))
            return 1
        log.info("worker started", worker=name, pid=process.pid)
        stopping = asyncio.create_task(stop.wait())
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await _stop(process)
            return await ended
        finally:
            stopping.cancel()
            process.kill()

    async def _release(self, name: str, code: int) -> None:
        """Give back at once what an ended worker held. A lease that lapses does the same, seconds later."""
        instruments.worker_exits.add(1, {"outcome": "drained" if code == 0 else "died"})
        for _ in range(RELEASE_TRIES):
            try:
                requeued = await self._queue.deregister(name, "lost" if code else "drain")
            except (RedisError, OSError):
                await asyncio.sleep(RELEASE_RETRY_SECONDS)
                continue
            if requeued:
                log.warning("requests given back", worker=name, requeued=requeued)
            return

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Ours, and an even share of the cores where nobody said otherwise."""
        environment = dict(base)
        if self._settings.worker_threads is None and "OMP_NUM_THREADS" not in environment:
            environment["PARLEY_WORKER_THREADS"] = str(max(1, usable_cpus() // self._workers))
        return environment


async def _stop(process: LeashedProcess) -> None:
    process.terminate()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
