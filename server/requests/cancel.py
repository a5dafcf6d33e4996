"""Cancelling a request wherever it is."""

from core.pools import HOPS_MAX
from engine.api import Control, EndReason, MigratedTo, RequestStatus, end_unclaimed
from server.context import GatewayContext


async def cancel_placed(
    edge: GatewayContext, pool: str, tenant: str, id: str, body_hash: str
) -> RequestStatus | None:
    """Cancel it in its pool, or where it was ordered to; the state it was in, None where no pool knows it, or
    one knows another under its id."""
    for _ in range(HOPS_MAX):
        queue = edge.pools.queues[pool]
        status = await queue.control(tenant, id, Control.CANCEL, body_hash)
        if isinstance(status, MigratedTo):
            if not edge.pools.is_ordered(pool, tenant, id, status.order):
                return None
            pool = status.pool
            continue
        if status in (RequestStatus.QUEUED, RequestStatus.PARKED):
            await end_unclaimed(queue, edge.quota, tenant, id, EndReason.CANCELLED)
        return status
    return None
