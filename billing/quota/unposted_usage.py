"""A tenant's usage in Redis that may not be in the books yet: open requests, and ends that no biller has
acknowledged. Reads only.

The order of reading is against the flow: open requests first, then ends. So an answer that ends meanwhile is
seen at least once, and a reader who then reads the books misses none.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from billing.quota.open_requests import OwnerFilter, open_of
from billing.quota.redis_keys import open_requests_key
from billing.usage import ENDED_FIELD, ENDED_GROUP_BILLER, ended_stream, read_event
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.members import entries_behind, names, reading
from core.redis.unreadable import Unreadable

ENTRIES_AT_ONCE = 500
ENTRIES_MAX = 200_000  # of all pools; beyond it `more` is set


class EndedRequest(NamedTuple):
    """End of a request, from its event."""

    request: str
    pool: str
    accepted_ms: int
    event_sha256: str


@dataclass(frozen=True)
class UnpostedUsage:
    """Requests accepted before a time. `open`: pools of unfinished requests; `unreachable`: Redis could
    not be read; `more`: there are more ends than were read."""

    open: list[str] = field(default_factory=list[str])
    ended: list[EndedRequest] = field(default_factory=list[EndedRequest])
    unreachable: bool = False
    more: bool = False


async def unposted_usage(
    redis: RedisClient, pools: Iterable[str], tenant_id: str, before_ms: int
) -> UnpostedUsage:
    """Find a tenant's usage that is not posted yet, in these pools and in those of its open requests."""
    try:
        runs = await _open(redis, tenant_id, before_ms)
        ended: list[EndedRequest] = []
        seen = 0
        for pool in sorted({*pools, *(pool for pool in runs if pool)}):
            async for _, data in unacknowledged(redis, pool):
                seen += 1
                if seen > ENTRIES_MAX:
                    return UnpostedUsage(runs, ended, more=True)
                event = read_event(data)
                if isinstance(event, Unreadable) or event.tenant != tenant_id:
                    continue
                if min(event.accepted_ms, event.ended_ms) < before_ms:
                    sha256 = hashlib.sha256(data).hexdigest()
                    ended.append(EndedRequest(event.request, pool, event.accepted_ms, sha256))
        return UnpostedUsage(runs, ended)
    except (redis_errors.RedisError, OSError):
        return UnpostedUsage(unreachable=True)


async def _open(redis: RedisClient, tenant_id: str, before_ms: int) -> list[str]:
    """Pools of the requests that were admitted before a time and are not settled."""
    key = open_requests_key(tenant_id)
    early = await reading(key, redis.zrangebyscore(key, "-inf", f"({before_ms}"), [])
    ids = set(names(key, early))
    return [pool for id, pool in await open_of(redis, OwnerFilter(tenant_id)) if id in ids]


async def unacknowledged(redis: RedisClient, pool: str) -> AsyncGenerator[tuple[str, bytes]]:
    """Yield a pool's events, each with its id in the stream, from the oldest that the biller may still need;
    it has acknowledged some of them."""
    key = ended_stream(pool)
    try:
        groups = {group["name"].decode(): group for group in await redis.xinfo_groups(key)}
    except redis_errors.ResponseError as error:
        if "no such key" in str(error).lower():
            return  # nothing ended there
        raise
    group = groups.get(ENDED_GROUP_BILLER)
    pending = group and group["pending"] and await redis.xpending(key, ENDED_GROUP_BILLER)
    oldest = pending and pending["min"]  # None: acknowledged meanwhile
    if group and not oldest:
        page = await entries_behind(redis, key, group["last-delivered-id"], ENTRIES_AT_ONCE)
    else:
        page = await redis.xrange(key, min=oldest.decode() if oldest else "-", count=ENTRIES_AT_ONCE)
    while page:
        for id, fields in page:
            yield id.decode(), fields.get(ENDED_FIELD.encode(), b"")
        page = await entries_behind(redis, key, page[-1][0], ENTRIES_AT_ONCE)
