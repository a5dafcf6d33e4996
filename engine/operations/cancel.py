"""Ends the queued and running requests of a key, user, project or tenant, for commands that shut them out."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from redis.exceptions import NoPermissionError, ResponseError

from billing.api import OwnerFilter, Quota, open_of, release_lapsed
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.pools import HOPS_MAX
from core.redis.redis_errors import is_refusing_everybody
from core.redis.unreadable import ERRORS
from engine.lifecycle.finish import end_unclaimed
from engine.queue.client import PoolQueue
from engine.queue.types import MigratedTo
from engine.request import Control, EndReason, RequestStatus

# Gateways learn within a second who is shut out: until then there may be new requests.
LATE_REQUESTS_SECONDS = 1.0
CANCEL_SECONDS_MAX = 10.0
AT_ONCE_MAX = 16
POLL_SECONDS = 0.1

OpenRequests = Sequence[tuple[str, str]]  # (id, pool) of each


async def cancel_requests(
    redis: RedisClient,
    settings: Settings,
    whose: OwnerFilter,
    stored: Callable[[], Awaitable[OpenRequests]] | None = None,
) -> tuple[int, int]:
    """Cancel all open requests, and new ones meanwhile. Returns the number cancelled, and of those the number
    not yet ended: their workers do not obey, and the reaper ends them. Repeating it changes nothing.

    `stored` finds open requests by what SQL has of them: a worker can take them out of the tenant's list."""
    await release_lapsed(Quota(redis, settings), settings, whose.tenant)
    began, told = time.monotonic(), set[str]()

    async def look() -> OpenRequests:
        listed = await open_of(redis, whose)
        ids = {id for id, _ in listed}
        return listed + [each for each in (await stored() if stored else ()) if each[0] not in ids]

    while True:
        found = await look()
        told |= {id for id, _ in found}
        await _cancel_all(redis, settings, whose.tenant, found)
        passed = time.monotonic() - began
        if passed > (CANCEL_SECONDS_MAX if found else LATE_REQUESTS_SECONDS):
            left = await look() if found else []  # this round may have ended them
            return len(told), len(left)
        await asyncio.sleep(POLL_SECONDS)


async def _cancel_all(redis: RedisClient, settings: Settings, tenant: str, found: OpenRequests) -> None:
    slots, quota = asyncio.Semaphore(AT_ONCE_MAX), Quota(redis, settings)

    async def one(id: str, pool: str) -> None:
        async with slots:
            try:
                await _cancel(PoolQueue(redis, pool, settings), quota, tenant, id)
            except (ResponseError, *ERRORS) as error:
                # Its keys are damaged: it counts as not ended, and the others end.
                if isinstance(error, ResponseError) and (
                    is_refusing_everybody(error) or isinstance(error, NoPermissionError)
                ):
                    raise

    async with asyncio.TaskGroup() as group:
        for id, pool in found:
            group.create_task(one(id, pool))


async def _cancel(queue: PoolQueue, quota: Quota, tenant: str, id: str) -> None:
    queue, status = await cancel_where_it_is(queue, tenant, id)
    if status in (RequestStatus.QUEUED, RequestStatus.PARKED):
        await end_unclaimed(queue, quota, tenant, id, EndReason.CANCELLED)


async def cancel_where_it_is(
    queue: PoolQueue, tenant: str, id: str
) -> tuple[PoolQueue, RequestStatus | None]:
    """Set the flag in the pool to which a request has moved. Returns that pool, and the status there; None
    where no pool knows it, or a worker's forged records lead from pool to pool without end."""
    for _ in range(HOPS_MAX):
        status = await queue.control(tenant, id, Control.CANCEL)
        if not isinstance(status, MigratedTo):
            return queue, status
        queue = PoolQueue(queue.redis, status.pool, queue.settings)
    return queue, None
