"""Reports of supervisors about their workers, and orders of operators for both. Decides nothing."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from billing.api import READY_GAP_MS_MAX, READY_INTERVALS_MAX
from core.observability.telemetry import logger
from core.redis.members import made_anew, names, readable, reading
from core.redis.scripts import Script
from core.redis.unreadable import Unreadable, read
from engine.gpus import DeviceHealth
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from engine.queue.lua_scripts import pool_script
from engine.queue.script_calls import PoolCall

REPORT_LEASE_MS = 5_000
ORDER_KEEP_MS = 15_000
WORKERS_MAX = 64  # of one supervisor
REPORTED_MAX = 1_024  # what a report says beyond these is none
NAME_MAX = 500

Reported = Annotated[int, Meta(ge=0, le=REPORTED_MAX)]
ProcessId = Annotated[int, Meta(ge=0, lt=1 << 31)]
Named = Annotated[str, Meta(max_length=NAME_MAX)]
Amount = Annotated[int, Meta(ge=0, lt=1 << 53)]

Call = TypeVar("Call", bound=PoolCall)
Reply = TypeVar("Reply")

log = logger(__name__)


class WorkerProcessState(StrEnum):
    """State of one worker index at its supervisor. SICK: its GPU must not be used; ALARM: the model failed to
    load again and again, and is still tried."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    RESTARTING = "restarting"
    SICK = "sick"
    ALARM = "alarm"


class WorkerReport(msgspec.Struct, frozen=True):
    """One worker index. `worker` is the process that runs there now or ran last; `why`: the last fault.

    `gpu`: its index on the node, None where there is none or none can be read; `version`, `fingerprint`: of
    its model, empty until known; `start_seconds`: how long its last start took until it was ready.
    """

    index: Reported
    worker: str
    pid: ProcessId
    state: WorkerProcessState
    starts: Amount = 0
    failures: Amount = 0
    memory_mib: Amount | None = None
    why: str = ""
    gpu: Reported | None = None
    version: Named = ""
    fingerprint: Named = ""
    start_seconds: Annotated[float, Meta(ge=0)] | None = None


class NodeReport(msgspec.Struct, frozen=True):
    """One supervisor and its worker indexes. `devices_missing`: the reason why no GPU could be read.

    `workers`: how many it was told to run, None from a release that cannot be told while it runs;
    `versions`: of each version, None from a release that runs one; `paid`: of how many ready time counts."""

    supervisor: str
    node: str
    pid: ProcessId
    slots: Annotated[list[WorkerReport], Meta(max_length=REPORTED_MAX)]
    devices: list[DeviceHealth] = []
    devices_missing: str = ""
    workers: Reported | None = None
    versions: Annotated[dict[Named, Reported], Meta(max_length=REPORTED_MAX)] | None = None
    paid: Reported | None = None


class ReadyTime(msgspec.Struct, frozen=True):
    """Ready time of a worker's GPUs. `device`: key under which it is counted once."""

    worker: str
    state: WorkerProcessState
    gpus: int
    device: str
    gpu_type: str


class WorkerOrderKind(StrEnum):
    """DRAIN is obeyed by the worker itself, KILL by its supervisor, RESIZE is for a supervisor."""

    DRAIN = "drain"
    KILL = "kill"
    RESIZE = "resize"


class WorkerOrder(msgspec.Struct, frozen=True):
    """An order about a worker; of a RESIZE, `worker` is the number of workers to run, or a WorkerCounts."""

    kind: WorkerOrderKind
    worker: str


class WorkerCounts(msgspec.Struct, frozen=True):
    """How many workers of each version a supervisor is to run, and of how many ready time counts."""

    versions: dict[Annotated[str, Meta(min_length=1)], Annotated[int, Meta(ge=1, le=WORKERS_MAX)]]
    paid: Annotated[int, Meta(ge=0, le=WORKERS_MAX)]


class ReportCall(PoolCall, kw_only=True):
    """A supervisor's report; an empty one removes the supervisor."""

    supervisor: str
    lease_ms: int
    report: bytes


class ReadyCall(PoolCall, kw_only=True):
    """Heartbeats of a supervisor's workers."""

    gap_ms_max: int
    intervals_max: int
    heartbeats: list[ReadyTime]


class OrderCall(PoolCall, kw_only=True):
    """An order about a worker, for its addressee."""

    addressee: str
    kind: str
    worker: str
    keep_ms: int


REPORT = pool_script("report", ReportCall, bool)
READY = pool_script("ready", ReadyCall, int)
ORDER = pool_script("order", OrderCall, bool)


class PoolNodes:
    """The supervisors and workers of one pool. Holds nothing but the client."""

    def __init__(self, queue: PoolQueue) -> None:
        self._queue = queue
        self._redis = queue.redis
        self._pool = queue.pool

    async def report(self, report: NodeReport) -> None:
        """Publish this supervisor's report; it holds for REPORT_LEASE_MS."""
        packed = msgspec.json.encode(report)
        call = ReportCall(supervisor=report.supervisor, lease_ms=REPORT_LEASE_MS, report=packed)
        await self._run(REPORT, call)

    async def beat(self, heartbeats: Sequence[ReadyTime]) -> bool:
        """Extend the ready time of these workers, where the pool agrees that they are ready. False: some of
        it was not kept, because no biller has taken any for very long."""
        call = ReadyCall(
            gap_ms_max=READY_GAP_MS_MAX, intervals_max=READY_INTERVALS_MAX, heartbeats=list(heartbeats)
        )
        return await self._run(READY, call) == 0

    async def leave(self, supervisor: str) -> None:
        """Remove a supervisor that has ended."""
        await self._run(REPORT, ReportCall(supervisor=supervisor, lease_ms=0, report=b""))

    async def reports(self) -> list[NodeReport]:
        """The last report of every living supervisor."""
        key = self._key("supervisors")
        named = names(key, await reading(key, self._redis.zrange(key, 0, -1), []))
        pipeline = self._redis.pipeline(transaction=False)
        for name in named:
            pipeline.get(self._key(f"supervisor:{name}"))
        replies = await pipeline.execute(raise_on_error=False) if named else []
        found = [each for _, each in readable(self._key("supervisor:"), named, replies)]
        reports = [read("report", _report, each) for each in found if each is not None]
        return [each for each in reports if not isinstance(each, Unreadable)]

    async def order(self, addressee: str, kind: WorkerOrderKind, worker: str) -> None:
        """Leave an order for a worker or a supervisor. `workers` shows whether it was obeyed."""
        call = OrderCall(addressee=addressee, kind=kind.value, worker=worker, keep_ms=ORDER_KEEP_MS)
        await self._run(ORDER, call)

    async def resize(self, supervisor: str, workers: int | WorkerCounts) -> None:
        """Tell a running supervisor how many workers to run. Its next reports show whether it was obeyed; one
        that reports no versions takes a number alone."""
        told = str(workers) if isinstance(workers, int) else msgspec.json.encode(workers, order="sorted")
        await self.order(supervisor, WorkerOrderKind.RESIZE, told if isinstance(told, str) else told.decode())

    async def next_order(self, addressee: str, seconds: float, resizes: bool = False) -> WorkerOrder | None:
        """The oldest waiting order, or the first that comes within `seconds`. `resizes`: a supervisor's,
        which takes a RESIZE where no worker may write, and nowhere else."""
        key, sizes = self._key(f"orders:{addressee}"), self._key(f"sizes:{addressee}")
        keys = [sizes, key] if resizes else [key]
        taken = await made_anew(self._redis, key, lambda: self._redis.blpop(keys, timeout=seconds))
        if taken is None:
            return None
        order = read("order", _order, taken[1])
        if isinstance(order, Unreadable):
            log.warning("worker_order.unreadable", pool=self._pool, why=order.why)
            return None
        if (order.kind is WorkerOrderKind.RESIZE) != (taken[0] == sizes.encode()):
            log.warning("worker_order.misplaced", pool=self._pool, kind=order.kind.value)
            return None
        return order

    async def is_draining(self, worker: str) -> bool:
        """True where a registered worker was told to drain."""
        return worker in await self.draining([worker])

    async def draining(self, workers: Sequence[str]) -> set[str]:
        """Those of these registered workers that were told to drain."""
        pipeline = self._redis.pipeline(transaction=False)
        for worker in workers:
            pipeline.hget(redis_keys.worker(self._pool, worker), "state")
        states = await pipeline.execute(raise_on_error=False) if workers else []
        told = readable(redis_keys.worker(self._pool, ""), workers, states)
        return {worker for worker, state in told if state == b"draining"}

    def _key(self, name: str) -> str:
        return f"{{p:{self._pool}}}{name}"

    async def _run(self, script: Script[Call, Reply], call: Call) -> Reply:
        return await script(self._queue.redis, [redis_keys.system(self._pool)], call)


def counts_of(text: str) -> int | WorkerCounts | None:
    """What a RESIZE asks for; None where it is nothing that can be run."""
    if text.isascii() and text.isdecimal() and len(text) < 4:
        return int(text) if int(text) <= WORKERS_MAX else None
    try:
        counts = msgspec.json.decode(text, type=WorkerCounts)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return counts if sum(counts.versions.values()) <= WORKERS_MAX else None


def _report(data: bytes) -> NodeReport:
    return msgspec.json.decode(data, type=NodeReport)


def _order(data: bytes) -> WorkerOrder:
    kind, _, worker = data.decode().partition(" ")
    return WorkerOrder(WorkerOrderKind(kind), worker)
