"""A tenant's share of a pool as its caps count it: what it has in hand there, and the most it may have."""

from typing import Any

import msgspec

from core.redis.members import readable, whole
from engine.queue.client import PoolQueue


class PoolShare(msgspec.Struct, frozen=True):
    """What a tenant has in hand in a pool: requests and KV tokens. None: no cap. `waits`: it is at a cap, so
    that its other requests wait."""

    pool: str
    running: int
    slots_max: int | None
    tokens: int
    tokens_max: int | None
    waits: bool


async def pool_share(queue: PoolQueue, tenant: str) -> PoolShare:
    """The share of a tenant, as `is_at_cap` of engine/queue/lua/prelude/fair.lua counts it."""
    tag = f"{{p:{queue.pool}}}"
    terms = ("HMGET", f"{tag}ten:{tenant}", "slots_max", "tokens_max", "tokens")
    replies = await queue.redis.all_at_once([terms, ("SCARD", f"{tag}run:{tenant}")])
    known: dict[int, Any] = dict(readable(f"{tag}ten:", range(2), replies))
    slots_max, tokens_max, tokens = known.get(0) or (None, None, None)
    running, in_flight = int(known.get(1) or 0), whole(tokens)
    slots, most = (None if each is None else whole(each) for each in (slots_max, tokens_max))
    full = slots is not None and running >= slots
    return PoolShare(
        queue.pool, running, slots, in_flight, most, full or (most is not None and in_flight >= most)
    )
