"""A supervisor's place for one worker: starts it on a leash, sees its exit at once, gives back what it held,
and starts the next one."""

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil
from redis.exceptions import RedisError

from core.errors import StartupError
from core.leash import LeashedProcess, spawn
from core.settings import Settings
from core.telemetry import logger
from engine import instruments
from engine.backends.environment import usable_cpus
from engine.fleet import SlotReport, SlotState
from engine.queue import PoolQueue

log = logger(__name__)

STABLE_SECONDS = 60.0
BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
RELEASE_TRIES = 20
RELEASE_RETRY_SECONDS = 0.1
MIB = 1 << 20


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a worker is started again. Pure: each exit gives the next state."""

    failures: int = 0

    def after_exit(self, ran_seconds: float, planned: bool = False) -> "Backoff":
        """A worker that ran for a while, or ended in order, starts the count anew."""
        return Backoff(1 if planned or ran_seconds >= STABLE_SECONDS else self.failures + 1)

    @property
    def seconds(self) -> float:
        """The first restart is immediate: a crash after a long run says nothing about the next start."""
        if self.failures <= 1:
            return 0.0
        return min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2 ** (self.failures - 2))


class Slot:
    """Runs one worker after the other until told to stop. `changed` is called when its state does."""

    def __init__(
        self, settings: Settings, queue: PoolQueue, index: int, workers: int, changed: Callable[[], None]
    ) -> None:
        self.worker = ""
        self._settings = settings
        self._queue = queue
        self._index = index
        self._workers = workers
        self._changed = changed
        self._process: LeashedProcess | None = None
        self._state = SlotState.STARTING
        self._backoff = Backoff()
        self._starts = 0
        self._why = ""

    async def keep(self, stop: asyncio.Event) -> None:
        """Until `stop`; then the worker drains and ends."""
        while not stop.is_set():
            self.worker = f"{self._settings.node}-{self._index}-{secrets.token_hex(4)}"
            started = time.monotonic()
            code = await self._run_one(stop)
            await self._release(code)
            self._backoff = self._backoff.after_exit(time.monotonic() - started, planned=code == 0)
            if not stop.is_set():
                await self._pause(code, stop)

    def seen(self, registered: set[str]) -> None:
        """The workers that the pool knows now."""
        if self._state is SlotState.STARTING and self.worker in registered:
            self._to(SlotState.READY)

    def kill(self) -> None:
        """SIGKILL the worker and everything it started; its exit is seen like any other."""
        if self._process is not None:
            log.warning("worker killed by order", worker=self.worker)
            self._process.kill()

    def report(self) -> SlotReport:
        """How it stands."""
        return SlotReport(
            index=self._index,
            worker=self.worker,
            pid=self._process.pid if self._process else 0,
            state=self._state,
            starts=self._starts,
            failures=self._backoff.failures,
            memory_mib=_memory_mib(self._process.pid) if self._process else None,
            why=self._why,
        )

    async def _run_one(self, stop: asyncio.Event) -> int:
        """One worker from its start to its end; its exit code."""
        logs = self._settings.home / "logs"
        argv = [sys.executable, "-m", "engine.main", "worker", "--name", self.worker]
        self._starts += 1
        self._to(SlotState.STARTING)
        try:
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = await spawn(argv, self._environment(os.environ), logs / f"worker-{self._index}.log")
        except (StartupError, OSError) as error:
            log.error("worker not started", worker=self.worker, error=str(error))
            return 1
        log.info("worker started", worker=self.worker, pid=process.pid)
        self._process = process
        stopping = asyncio.create_task(stop.wait())
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._to(SlotState.DRAINING)
                await _stop(process)
            return await ended
        finally:
            stopping.cancel()
            process.kill()
            self._process = None

    async def _pause(self, code: int, stop: asyncio.Event) -> None:
        self._why = "" if code == 0 else f"ended with code {code}"
        self._to(SlotState.RESTARTING)
        log.warning("worker ended", worker=self.worker, code=code, restart_in=self._backoff.seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.seconds):
                await stop.wait()

    async def _release(self, code: int) -> None:
        """Give back at once what an ended worker held. A lease that lapses does the same, seconds later."""
        instruments.worker_exits.add(1, {"outcome": "drained" if code == 0 else "died"})
        for _ in range(RELEASE_TRIES):
            try:
                requeued = await self._queue.deregister(self.worker, "lost" if code else "drain")
            except (RedisError, OSError):
                await asyncio.sleep(RELEASE_RETRY_SECONDS)
                continue
            if requeued:
                log.warning("requests given back", worker=self.worker, requeued=requeued)
            return

    def _to(self, state: SlotState) -> None:
        self._state = state
        self._changed()

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


def _memory_mib(pid: int) -> int | None:
    """Resident memory of a worker and of what it started, what they share counted for each."""
    try:
        leader = psutil.Process(pid)
        return sum(each.memory_info().rss for each in [leader, *leader.children(recursive=True)]) // MIB
    except psutil.Error:
        return None
