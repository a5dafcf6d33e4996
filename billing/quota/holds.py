"""Reading a tenant's open requests by their admission, and what stands among them and is none: a worker may
have written any number, before all others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from billing.quota.redis_keys import open_requests_key, rq_key
from billing.quota.types import Hold
from core.redis.client import RedisClient
from core.redis.members import names, readable, reading
from core.redis.unreadable import Unreadable, read

AT_ONCE = 1_000
READ_MAX = 100_000  # of one tenant at a time; what is none goes, so the next look comes further
FIELDS = ("state", "pool", "admitted", "deadline", "hold")


@dataclass
class IndexedHolds:
    """Open requests, oldest first; members of their index that have none: names (`closed`), and bytes that
    are not even a name (`odd`)."""

    holds: list[Hold] = field(default_factory=list[Hold])
    closed: list[str] = field(default_factory=list[str])
    odd: list[bytes] = field(default_factory=list[bytes])


async def indexed_holds(redis: RedisClient, tenant: str, most: str) -> IndexedHolds:
    """What stands in the index up to a score, at most READ_MAX."""
    key, found = open_requests_key(tenant), IndexedHolds()
    for first in range(0, READ_MAX, AT_ONCE):
        page = redis.zrange(key, "-inf", most, byscore=True, offset=first, num=AT_ONCE)
        members = await reading(key, page, [])
        await _look(redis, tenant, members, found)
        if len(members) < AT_ONCE:
            break
    return found


async def _look(redis: RedisClient, tenant: str, members: Sequence[bytes], found: IndexedHolds) -> None:
    key = open_requests_key(tenant)
    ids = names(key, members)
    found.odd += set(members) - {id.encode() for id in ids}
    pipeline = redis.pipeline(transaction=False)
    for id in ids:
        pipeline.hmget(rq_key(tenant, id), *FIELDS)
    replies = await pipeline.execute(raise_on_error=False) if ids else []
    rows = {id: fields for id, fields in readable(key, ids, replies) if fields[0] == b"open"}
    found.closed += [id for id in ids if id not in rows]
    holds = [read("hold", _hold, row) for row in rows.items()]
    found.holds += [hold for hold in holds if not isinstance(hold, Unreadable)]


def _hold(row: tuple[str, Sequence[bytes]]) -> Hold:
    id, (_, pool, admitted, deadline, hold) = row
    return Hold(id, pool.decode(), int(admitted), int(deadline), int(hold))
