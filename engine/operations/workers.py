"""Operations on workers: listing those of a pool, draining one, killing one."""

import asyncio
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import PLATFORM, Look, Order
from core.errors import bad_request, see, unknown
from core.operations import OPERATORS, ListedPage, Role, Uses, operation
from engine.node.reports import PoolNodes, WorkerOrderKind
from engine.operations.inspection import Inspection
from engine.operations.pool_questions import AUDIT, WORKER_READS, PoolQuestion, known_pool
from engine.operations.worker_rows import WorkerRow
from engine.queue.client import PoolQueue

DRAIN_SECONDS_MAX = 20.0
KILL_SECONDS_MAX = 10.0
POLL_SECONDS = 0.1
DRAINABLE = ("ready", "draining", "lapsed")


class NameWorker(PoolQuestion, frozen=True, kw_only=True):
    """Which worker."""

    worker: Annotated[str, Meta(description="The worker's name.")]


class OrderedWorker(msgspec.Struct, frozen=True):
    """A worker that was told to end. `held`: requests that it had in hand; `gone`: its process has ended, as
    far as the pool and its supervisor know."""

    worker: str
    pool: str
    held: int
    gone: bool


@operation(
    "workers.list",
    "GET /workers",
    may=OPERATORS | {Role.SUPPORT},
    uses=Uses(reads="pool", keys=WORKER_READS),
)
async def list_workers(look: Look, ask: PoolQuestion) -> ListedPage[WorkerRow]:
    """List every worker of a pool: where it is, what it has in hand and how its engine does."""
    return ListedPage(await Inspection(await known_pool(look, ask.pool)).workers())


@operation(
    "workers.drain",
    "POST /workers/{worker}/drain",
    may=OPERATORS,
    audit="worker.drain",
    reason=True,
    long=True,
    uses=Uses(reads="pool", writes=f"operation_run {AUDIT}", keys=WORKER_READS),
)
async def drain_worker(order: Order, ask: NameWorker) -> OrderedWorker:
    """Let a worker give back what it has in hand and end; its supervisor starts another in its place. Its
    requests go on elsewhere, at once where another worker has room."""
    queue = await known_pool(order, ask.pool)
    row = await _find(queue, ask.worker)
    if row.state not in DRAINABLE:
        raise bad_request(f"{row.worker} is {row.state}: it has nothing to drain", field="worker")
    return await _ended(order, queue, row, row.worker, WorkerOrderKind.DRAIN, DRAIN_SECONDS_MAX)


@operation(
    "workers.kill",
    "POST /workers/{worker}/kill",
    may=OPERATORS,
    audit="worker.kill",
    reason=True,
    uses=Uses(reads="pool", writes=AUDIT, keys=WORKER_READS),
)
async def kill_worker(order: Order, ask: NameWorker) -> OrderedWorker:
    """End a worker at once (SIGKILL, its engine too) through its node's supervisor, which starts another."""
    queue = await known_pool(order, ask.pool)
    row = await _find(queue, ask.worker)
    for report in await PoolNodes(queue).reports():
        if any(slot.worker == row.worker and slot.pid for slot in report.slots):
            return await _ended(order, queue, row, report.supervisor, WorkerOrderKind.KILL, KILL_SECONDS_MAX)
    where = f"end process {row.pid} on node {row.node} there"
    raise bad_request(f"no supervisor runs {row.worker}: {where}", field="worker")


async def _find(queue: PoolQueue, worker: str) -> WorkerRow:
    for row in await Inspection(queue).workers():
        if row.worker == worker:
            return row
    raise unknown(
        f"there is no worker {worker!r} in pool {queue.pool}", field="worker", see=see("workers.list")
    )


async def _ended(
    order: Order, queue: PoolQueue, row: WorkerRow, told: str, kind: WorkerOrderKind, seconds: float
) -> OrderedWorker:
    """Give an order to a worker, or to its supervisor, and wait until the worker is gone."""
    would = OrderedWorker(row.worker, queue.pool, row.claims, False)
    redis = await order.given(PLATFORM, row.worker, would, {"pool": queue.pool})
    ordered = PoolQueue(redis, queue.pool, order.settings)
    await PoolNodes(ordered).order(told, kind, row.worker)
    return msgspec.structs.replace(would, gone=await _gone(order, ordered, row.worker, seconds))


async def _gone(order: Order, queue: PoolQueue, worker: str, seconds: float) -> bool:
    """Wait until a worker is gone, and tell what it still has in hand."""
    deadline, inspection = time.monotonic() + seconds, Inspection(queue)
    held = first = -1
    while time.monotonic() < deadline and not order.progress.stopping:
        rows = [row for row in await inspection.workers() if row.worker == worker]
        if all(row.state == "restarting" for row in rows):
            return True
        if held != (held := sum(row.claims for row in rows)):
            first = max(first, held)
            order.progress.tell(first - held, first, f"{worker} has {held} in hand")
        await asyncio.sleep(POLL_SECONDS)
    return False


OPERATIONS = (list_workers, drain_worker, kill_worker)
