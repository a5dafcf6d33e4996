"""One worker index of a supervisor: starts its worker on a leash, sees its exit at once, gives back what it
held, and starts the next one."""

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from urllib.parse import quote

import psutil
from redis.exceptions import RedisError

from core.access.processes import WORKER
from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.runtime.environment import child_environment
from core.runtime.leash import LeashedProcess, spawn
from engine import instruments
from engine.backends.environment import usable_cpus
from engine.gpus import GpuAssignment
from engine.models.known import RECORD
from engine.models.registry import ModelRecord
from engine.node import cpu_share
from engine.node.reports import ReadyTime, WorkerProcessState, WorkerReport
from engine.node.sockets import engine_sockets
from engine.queue.client import PoolQueue
from engine.queue.types import WorkerView

log = logger(__name__)

STABLE_SECONDS = 60.0
BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
RELEASE_TRIES = 20
RELEASE_RETRY_SECONDS = 0.1
LAPSED_SECONDS_MAX = 30.0
MEMORY_SECONDS = 10.0
OWN_PAUSE_SECONDS = 5.0
LOAD_RETRIES = 3
ENGINE_DEAD = 70
MIB = 1 << 20
CPU = "cpu"
MAKERS = frozenset({"nvidia", "tesla", "geforce"})


@dataclass(frozen=True)
class Backoff:
    """Wait before a worker is started again. Pure: each exit gives the next state."""

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


class SupervisedWorker:
    """Runs one worker after the other until told to stop. `changed` is called when its state changes, `model`
    gives a version's model before each start; `gpu` is set before `keep`, where the node has any. `workers`:
    how many share the node's cores, from the next start on. `version`: the only one that runs here, empty
    until it is known; `is_surge`: it runs beyond what is paid and sends no ready time; `is_modest`: its first
    start leaves the cores to others, too."""

    def __init__(
        self,
        settings: Settings,
        queue: PoolQueue,
        index: int,
        workers: int,
        changed: Callable[[], None],
        model: Callable[[str], Awaitable[ModelRecord]],
        version: str = "",
    ) -> None:
        self.worker = ""
        self.version = version
        self.is_surge = self.is_modest = False
        self.gpu: GpuAssignment | None = None
        self.workers = workers
        self._settings = settings
        self._queue = queue
        self._index = index
        self._changed = changed
        self._model = model
        self._process: LeashedProcess | None = None
        self._state = WorkerProcessState.STARTING
        self._backoff = Backoff()
        self._starts = 0
        self._why = ""
        self._fault = ""
        self._well = asyncio.Event()
        self._loaded = False
        self._fingerprint = ""
        self._start_seconds: float | None = None
        self._memory_mib: int | None = None
        self._load_failures = 0
        self._started_at = self._alive_at = self._looked_at = self._measured_at = 0.0

    async def keep(self, stop: asyncio.Event) -> None:
        """Run workers until `stop`; then drain and end the worker. While the GPU is sick no worker runs."""
        while not stop.is_set():
            if self._fault:
                await self._until_well(stop)
                continue
            self.worker = f"{self._settings.node}-{self._index}-{secrets.token_hex(4)}"
            started = time.monotonic()
            with engine_sockets(self._settings, self._index) as sockets:
                code = await self._run_one(stop, sockets)
            await self._count_load(code)
            await self._release(code)
            self._backoff = self._backoff.after_exit(time.monotonic() - started, planned=code == 0)
            if not stop.is_set():
                await self._pause(code, stop)

    def look(self, view: WorkerView | None) -> None:
        """Take the pool's view of this worker, about once a second, and end a worker whose lease lapsed for
        long or that does not get ready."""
        now = time.monotonic()
        paused, self._looked_at = now - self._looked_at > OWN_PAUSE_SECONDS, now
        if view is not None and view.worker == self.worker and not self._loaded:
            self._loaded, self._why = True, ""
            self._start_seconds = round(now - self._started_at, 1)
            self._to(WorkerProcessState.READY)
        if paused or (view is not None and view.alive):
            self._alive_at = now
        if self._process is None or self._state is WorkerProcessState.DRAINING:
            return
        start_max = self._settings.worker_start_seconds_max
        if not self._loaded and now - self._started_at > start_max:
            self._retire(f"not ready after {start_max} s")
        elif self._loaded and now - self._alive_at > LAPSED_SECONDS_MAX:
            self._retire(f"no lease for {LAPSED_SECONDS_MAX:.0f} s")

    def judge(self, fault: str) -> None:
        """Take the GPU's fault: retire the worker, in order; an empty one lets workers run again."""
        if fault and not self._fault:
            log.error("supervisor.gpu_faulty", worker=self.worker, fault=fault)
            instruments.alarms.add(1, {"kind": "device"})
        self._fault = fault
        if not fault:
            self._well.set()
            return
        self._well.clear()
        if self._process is not None and self._state is not WorkerProcessState.DRAINING:
            self._retire(fault)

    @property
    def is_ready(self) -> bool:
        """True while its worker takes work."""
        return self._state is WorkerProcessState.READY

    def kill(self) -> None:
        """SIGKILL the worker and everything it started; its exit is seen like any other."""
        if self._process is not None:
            log.warning("supervisor.worker_killed", worker=self.worker)
            self._process.kill()

    def report(self) -> WorkerReport:
        """A report of the worker's state."""
        return WorkerReport(
            index=self._index,
            worker=self.worker,
            pid=self._process.pid if self._process else 0,
            state=self._state,
            starts=self._starts,
            failures=self._backoff.failures,
            memory_mib=self._memory() if self._process else None,
            why=self._fault or self._why,
            gpu=self.gpu.device.index if self.gpu else None,
            version=self.version,
            fingerprint=self._fingerprint,
            start_seconds=self._start_seconds,
        )

    def heartbeat(self) -> ReadyTime | None:
        """The worker's heartbeat, by which ready time is counted; None where it has no GPU and none is
        counted without, and of one beyond what is paid."""
        if self.is_surge:
            return None
        if self.gpu is not None:
            device = self.gpu.device
            return ReadyTime(self.worker, self._state, 1, device.uuid, gpu_type(device.name))
        if not self._settings.meter_cpu:
            return None
        # Of its pool: workers of two pools on a node are two devices, as they share no GPU.
        device = (
            f"cpu-{quote(self._settings.node, safe='')}-{quote(self._settings.pool, safe='')}-{self._index}"
        )
        return ReadyTime(self.worker, self._state, 1, device, CPU)

    def _memory(self) -> int | None:
        """Memory in MiB, measured only now and then, as that looks at every process of the node."""
        now = time.monotonic()
        if self._process is not None and now - self._measured_at > MEMORY_SECONDS:
            self._measured_at, self._memory_mib = now, _memory_mib(self._process.pid)
        return self._memory_mib

    async def _run_one(self, stop: asyncio.Event, sockets: Mapping[str, str]) -> int:
        """Run one worker from its start to its end; its exit code."""
        logs = self._settings.home / "logs"
        argv = [sys.executable, "-m", "engine.main", "worker", "--name", self.worker]
        argv += ["--after-failed-starts"] if self._alarmed else []
        self._starts += 1
        self._loaded, self._started_at = False, time.monotonic()
        self._measured_at = 0.0
        self._alive_at = self._started_at
        self._to(WorkerProcessState.ALARM if self._alarmed else WorkerProcessState.STARTING)
        try:
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            environment = {**sockets, **self._environment(os.environ, await self._read_model())}
            process = await spawn(argv, environment, logs / self._log_name)
        except (StartupError, OSError) as error:
            log.error("supervisor.worker_start_failed", worker=self.worker, error=error_summary(error))
            return 1
        log.info("supervisor.worker_started", worker=self.worker, pid=process.pid)
        self._process = process
        stopping = asyncio.create_task(stop.wait())
        ended = asyncio.create_task(process.wait())
        try:
            if self._starts > 1 or self.is_modest or self.is_surge:
                await asyncio.to_thread(cpu_share.lower_cpu_share, process.pid)
            await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._to(WorkerProcessState.DRAINING)
                await _stop(process)
            return await ended
        finally:
            stopping.cancel()
            process.kill()
            self._process = None

    async def _read_model(self) -> ModelRecord:
        """The model to run: from the first start on that of one version, whatever is in use by then."""
        record = await self._model(self.version)
        self.version, self._fingerprint = record.version, record.fingerprint
        return record

    async def _pause(self, code: int, stop: asyncio.Event) -> None:
        if code != 0 and not self._alarmed:
            self._why = f"ended with code {code}" + ("" if self._loaded else ", not ready by then")
        self._to(WorkerProcessState.ALARM if self._alarmed else WorkerProcessState.RESTARTING)
        log.warning(
            "supervisor.worker_exited", worker=self.worker, code=code, restart_in=self._backoff.seconds
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.seconds):
                await stop.wait()

    async def _until_well(self, stop: asyncio.Event) -> None:
        self._to(WorkerProcessState.SICK)
        waits = [asyncio.create_task(event.wait()) for event in (self._well, stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _retire(self, why: str) -> None:
        """End the worker in order, by force where it does not exit."""
        log.warning("supervisor.worker_stopped", worker=self.worker, why=why)
        self._why = why
        self._to(WorkerProcessState.DRAINING)
        assert self._process is not None, "only what runs can end"
        self._process.terminate()
        asyncio.get_running_loop().call_later(STOP_SECONDS_MAX, self._process.kill)

    async def _count_load(self, code: int) -> None:
        """Count a worker that ended before it was ready as a failed load: retried, then an alarm."""
        if self._loaded or code in (0, ENGINE_DEAD) or await self._is_registered():
            self._load_failures = 0
            return
        self._load_failures += 1
        if self._load_failures == LOAD_RETRIES + 1:
            self._why = f"its model has not loaded {self._load_failures} times: see {self._log_name}"
            log.error(
                "supervisor.model_load_failed", worker=self.worker, code=code, failures=self._load_failures
            )
            instruments.alarms.add(1, {"kind": "load"})

    async def _is_registered(self) -> bool:
        with contextlib.suppress(RedisError, OSError):
            return any(view.worker == self.worker for view in await self._queue.workers())
        return False

    @property
    def _alarmed(self) -> bool:
        return self._load_failures > LOAD_RETRIES

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
                log.warning("supervisor.requests_requeued", worker=self.worker, requeued=requeued)
            return

    def _to(self, state: WorkerProcessState) -> None:
        self._state = state
        self._changed()

    @property
    def _log_name(self) -> str:
        """Name of the log file, with the pool, as supervisors of several pools share a data folder."""
        pool = self._settings.pool
        of_pool = "" if pool == Settings.model_fields["pool"].default else f"{quote(pool, safe='')}-"
        return f"worker-{of_pool}{self._index}.log"

    def _environment(self, base: Mapping[str, str], record: ModelRecord) -> dict[str, str]:
        """A worker's environment: its settings, its model, and an even share of the cores unless a setting
        says otherwise."""
        environment = child_environment(base, WORKER) | {"PARLEY_POOL": self._settings.pool}
        if own := self._settings.worker_redis_url:
            environment.pop("PARLEY_REDIS_URL_FILE", None)
            environment["PARLEY_REDIS_URL"] = own.get_secret_value()
        environment[RECORD] = json.dumps(asdict(record), default=str)
        if self.gpu is not None:
            environment |= self.gpu.environment
        if self._settings.metrics_port is not None:  # the supervisor's own is the first
            environment["PARLEY_METRICS_PORT"] = str(self._settings.metrics_port + 1 + self._index)
        if self._settings.worker_threads is None and "OMP_NUM_THREADS" not in environment:
            environment["PARLEY_WORKER_THREADS"] = str(max(1, usable_cpus() // self.workers))
        return environment


def gpu_type(name: str) -> str:
    """A GPU's name in prices: `h200` of `NVIDIA H200`; `gpu` where it reports none."""
    words = "".join(char if char.isalnum() else " " for char in name.lower()).split()
    return "-".join(word for word in words if word not in MAKERS) or "gpu"


async def _stop(process: LeashedProcess) -> None:
    process.terminate()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()


def _memory_mib(pid: int) -> int | None:
    """Resident MiB of a worker and its children; memory that they share counts for each."""
    try:
        leader = psutil.Process(pid)
        return sum(each.memory_info().rss for each in [leader, *leader.children(recursive=True)]) // MIB
    except psutil.Error:
        return None
