"""The supervisor: keeps a node's workers running, each on a leash, and the pool free of what they leave
behind.

It sees a worker's exit at once and gives the worker's requests back in the same moment, which is what makes
a crash a short pause for readers. It reports every second how its workers and their GPUs are, takes sick
ones out, obeys what operators order (`parley workers`), and needs no GPU.
"""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Coroutine, Generator
from typing import Any
from urllib.parse import quote

from redis.exceptions import RedisError

from billing.api import Quota
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files import file_lock
from core.observability.error_facts import reason
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.figure_minutes import FigureWriter
from core.redis.pools import announce_pool
from core.redis.scripts import keep_scripts
from core.runtime.failed_rounds import logged_failures
from core.tasks import cancel_tasks
from core.web.metrics import serving_metrics
from engine import instruments
from engine.gpus import DeviceHealth, Devices, DeviceWatch
from engine.journal.journal import make_journal
from engine.journal.keeper import JournalKeeper
from engine.lifecycle.reaper import Reaper
from engine.models.known import KnownModel
from engine.node.let_in import TenantsLetIn
from engine.node.old_requests import OldRequests
from engine.node.reports import (
    WORKERS_MAX,
    NodeReport,
    PoolNodes,
    WorkerCounts,
    WorkerOrder,
    WorkerOrderKind,
    counts_of,
)
from engine.node.sockets import clear_sockets
from engine.node.supervised_worker import SupervisedWorker
from engine.node.worker_gpus import WorkerGpus
from engine.node.worker_indexes import WantedWorkers, WorkerIndexes
from engine.queue.client import PoolQueue
from engine.queue.types import WorkerView
from engine.trials.server import TrialServer, can_try

log = logger(__name__)
repeated = RepeatedWarning(log)

REPORT_SECONDS = 1.0
HEALTH_LOG_SECONDS = 60.0
ORDER_WAIT_SECONDS = 1.0


class Supervisor:
    """Runs so many workers of one pool on this node, or as many as an order says since."""

    def __init__(self, settings: Settings, redis: RedisClient, workers: int | WorkerCounts) -> None:
        self._name = f"{settings.node}-{secrets.token_hex(4)}"
        self._settings = settings
        self._journal = make_journal(settings, settings.pool, self._name)
        ended = self._journal.add if self._journal else None
        self._queue = PoolQueue(redis, settings.pool, settings, ended=ended)
        self._pool_nodes = PoolNodes(self._queue)
        quota = Quota(redis, settings)
        self._reaper = Reaper(self._queue, quota, settings.reap_interval_ms)
        self._old_requests = OldRequests(settings, self._queue, quota)
        self._changed = asyncio.Event()
        self._model = KnownModel(settings)
        self._slots = WorkerIndexes(_wanted(workers), self._made, self._ended)
        self._devices: Devices | None = None
        self._devices_missing = ""
        self._seen: list[DeviceHealth] = []
        self._gpus = WorkerGpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
        self._watches: dict[str, DeviceWatch] = {}
        self._logged_at = time.monotonic()
        self._figures = FigureWriter(redis, settings)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then the workers drain and end. Raises StartupError where another supervisor runs
        this pool's workers from this data folder."""
        with _alone(self._settings), serving_metrics(self._settings, 0, lambda: ""):
            clear_sockets(self._settings)
            await asyncio.to_thread(self._open_devices)
            beside = [asyncio.create_task(loop) for loop in self.loops()]
            try:
                await self._slots.run(stop)
            finally:
                await cancel_tasks(beside)
                await self._figures.flush()
                self._gpus.close()
                with contextlib.suppress(RedisError, OSError):
                    await self._pool_nodes.leave(self._name)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """The supervisor's tasks beside its workers, each for ever."""
        loops: list[Coroutine[Any, Any, None]]
        loops = [keep_scripts(self._queue.redis), self._reaper.run(), self._watch(), self._obey()]
        loops += [self._figures.run(), TenantsLetIn(self._settings, self._queue).run()]
        loops += [self._old_requests.run()]
        if self._journal is not None:
            loops += [self._journal.run(), JournalKeeper(self._queue, self._journal).run()]
        if can_try():
            loops.append(TrialServer(self._settings, self._queue.redis).run())
        return loops

    def _open_devices(self) -> None:
        try:
            self._devices = Devices.open()
            self._seen = self._devices.read()
        except OSError as error:
            self._devices_missing = str(error)
            return
        self._watches = {device.uuid: DeviceWatch(device) for device in self._seen}
        self._gpus.reserve(self._seen, self._slots.wanted)
        nothing = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        if self._seen and self._slots.wanted and not nothing and not self._gpus.reserved:
            raise StartupError(
                f"other supervisors of node {self._settings.node} have all {len(self._seen)} GPUs: "
                "stop one, or let CUDA_VISIBLE_DEVICES name one that is free"
            )

    def _made(self, index: int, version: str) -> SupervisedWorker:
        share, changed, model = max(1, self._slots.paid), self._changed.set, self._model.read
        slot = SupervisedWorker(self._settings, self._queue, index, share, changed, model, version)
        slot.gpu = self._gpus.take(index, self._seen)
        return slot

    def _ended(self, index: int) -> None:
        self._gpus.give_back(index)
        self._changed.set()

    async def _watch(self) -> None:
        """Look at the workers and their GPUs and report on them, for ever."""
        while True:
            self._changed.clear()
            await self._look_at_devices()
            instruments.show_workers([slot.report().state.value for slot in self._slots], self._seen)
            with logged_failures(repeated, "supervisor.report_failed", pool=self._settings.pool):
                await announce_pool(self._queue.redis, self._settings, self._queue.pool)
                views = {view.worker: view for view in await self._queue.workers()}
                for slot in self._slots:
                    slot.look(views.get(slot.worker))
                await self._pool_nodes.report(self._report())
                await self._beat()
                self._log_health(views)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._changed.wait()

    async def _beat(self) -> None:
        """Send the heartbeats by which ready GPUs are metered."""
        heartbeats = [each for slot in self._slots if (each := slot.heartbeat()) and each.worker]
        if heartbeats and not await self._pool_nodes.beat(heartbeats):
            repeated.warning(
                "supervisor.ready_time_dropped", reason="no biller takes it", pool=self._settings.pool
            )

    async def _look_at_devices(self) -> None:
        if self._devices is None:
            return
        self._seen = await asyncio.to_thread(self._devices.read)
        xids = await asyncio.to_thread(self._devices.xids)
        for device in self._seen:
            self._watches[device.uuid].see(device, xids.get(device.uuid, []))
        for slot in self._slots:
            if slot.gpu is not None:
                slot.judge(self._watches[slot.gpu.device.uuid].fault)

    def _report(self) -> NodeReport:
        slots = [slot.report() for slot in self._slots]
        return NodeReport(
            supervisor=self._name,
            node=self._settings.node,
            pid=os.getpid(),
            slots=slots,
            devices=self._seen,
            devices_missing=self._devices_missing,
            workers=self._slots.wanted,
            versions=self._slots.versions,
            paid=self._slots.paid,
        )

    def _log_health(self, views: dict[str, WorkerView]) -> None:
        """Log the health of each worker, now and then."""
        if time.monotonic() - self._logged_at < HEALTH_LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        devices = {device.index: device for device in self._seen}
        for slot in (slot.report() for slot in self._slots):
            info = views[slot.worker].info if slot.worker in views else {}
            load = {
                name: info.get(name) for name in ("running", "waiting", "kv_usage", "steps", "step_age_ms")
            }
            gpu = devices[slot.gpu].temperature if slot.gpu is not None else self._devices_missing
            state, memory = slot.state.value, slot.memory_mib
            log.info(
                "supervisor.worker_health",
                worker=slot.worker,
                state=state,
                memory_mib=memory,
                gpu=gpu,
                **load,
            )

    async def _obey(self) -> None:
        """Obey orders as they come, for ever."""
        while True:
            with logged_failures(repeated, "supervisor.order_read_failed", pool=self._settings.pool):
                await self._obey_next()
                continue
            await asyncio.sleep(ORDER_WAIT_SECONDS)

    async def _obey_next(self) -> None:
        order = await self._pool_nodes.next_order(self._name, ORDER_WAIT_SECONDS, resizes=True)
        if order is None:
            return
        if order.kind is WorkerOrderKind.KILL:
            for slot in self._slots:
                if slot.worker == order.worker:
                    slot.kill()
        elif order.kind is WorkerOrderKind.RESIZE:
            self._resize(order)

    def _resize(self, order: WorkerOrder) -> None:
        wanted = counts_of(order.worker)
        if wanted is None:
            log.warning("supervisor.resize_refused", workers=order.worker[:10], most=WORKERS_MAX)
        else:
            self._slots.resize(_wanted(wanted))


def _wanted(workers: int | WorkerCounts) -> WantedWorkers:
    if isinstance(workers, int):
        return WantedWorkers.of_any(workers)
    return WantedWorkers(workers.versions, workers.paid)


@contextlib.contextmanager
def _alone(settings: Settings) -> Generator[None]:
    """Lock a data folder, node and pool: a second supervisor would write the same logs and use all cores."""
    names = f"{quote(settings.node, safe='')}-{quote(settings.pool, safe='')}"
    path = settings.home / f"supervisor-{names}.lock"
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = file_lock.acquire(path, 0)
    except OSError as error:
        raise StartupError(f"cannot use PARLEY_HOME {settings.home}: {reason(error)}") from error
    if lock is None:
        raise StartupError(
            f"another supervisor runs pool {settings.pool} on node {settings.node} from {settings.home} "
            f"(process {path.read_text().strip() or 'unknown'}): "
            "stop it, or choose another PARLEY_NODE, PARLEY_POOL or PARLEY_HOME"
        )
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(lock)
