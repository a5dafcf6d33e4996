"""Cancelling a request wherever it is."""

from billing.api import Quota
from core.pools import HOPS_MAX, ByPool
from engine.api import Control, EndReason, Moved, PoolQueue, Status, end_unclaimed


async def cancel_placed(
    queues: ByPool[PoolQueue], quota: Quota, pool: str, tenant: str, id: str
) -> Status | None:
    """Cancel it in its pool, or where it has moved; the state it was in, None where no pool knows it."""
    queue = queues[pool]
    for _ in range(HOPS_MAX):
        status = await queue.control(tenant, id, Control.CANCEL)
        if isinstance(status, Moved):
            queue = queues[status.pool]
            continue
        if status in (Status.QUEUED, Status.PARKED):
            await end_unclaimed(queue, quota, tenant, id, EndReason.CANCELLED)
        return status
    return None
