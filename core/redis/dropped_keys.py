"""Tells what scripts dropped: keys of another type than ours, of which only the server's log would say so.

A script counts them by kind in `dropped` of its slot (core/lua/prelude/numbers.lua). Whoever sweeps takes the
counts and tells them; a worker may write them, so they are bounded and their names are ours or `other`.
"""

import re
from collections.abc import Sequence

from core.observability.telemetry import logger, meter
from core.redis.client import RedisClient
from core.redis.members import readable, whole

SLOTS_AT_ONCE = 500
KINDS_MAX = 64
COUNT_MAX = 1_000_000
KIND = re.compile(rb"[a-z_~]{1,20}")

log = logger(__name__)
_dropped = meter("core").create_counter(
    "parley_redis_keys_dropped",
    description="keys of Redis that scripts dropped, as they were of another type",
)


async def tell_dropped(redis: RedisClient, slots: Sequence[str]) -> int:
    """Tell what was dropped in these slots (their tags) since the last look; return the number of keys."""
    total = 0
    for first in range(0, len(slots), SLOTS_AT_ONCE):
        some = slots[first : first + SLOTS_AT_ONCE]
        pipeline = redis.pipeline(transaction=False)
        for slot in some:
            pipeline.hlen(f"{slot}dropped")
        replies = await pipeline.execute(raise_on_error=False)
        for slot, kinds in readable("dropped", some, replies):
            if kinds:
                total += await _tell(redis, slot, kinds)
    return total


async def _tell(redis: RedisClient, slot: str, kinds: int) -> int:
    key = f"{slot}dropped"
    if kinds > KINDS_MAX:  # no script writes so many
        await redis.delete(key)
        return 0
    pipeline = redis.pipeline(transaction=False)
    pipeline.hgetall(key).delete(key)
    found, _ = await pipeline.execute()
    total = 0
    for kind, value in found.items():
        count = max(0, min(COUNT_MAX, whole(value)))
        named = kind.decode() if KIND.fullmatch(kind) else "other"
        log.warning("redis.key_dropped", slot=slot, kind=named, count=count)
        total += count
    _dropped.add(total)
    return total
