"""How many open requests of a pool began on a version of a model, which they keep to their end."""

from engine.queue import redis_keys
from engine.queue.client import PoolQueue

PAGE = 1_000
OPEN_LINES = ("moving", "deadlines")


async def pinning(queue: PoolQueue, fingerprint: str) -> int:
    """Open requests of a pool with this fingerprint: waiting, parked and moving ones included."""
    found = 0
    for line in OPEN_LINES:
        key, start = f"{{p:{queue.pool}}}{line}", 0
        while members := await queue.redis.zrange(key, start, start + PAGE - 1):
            pipeline = queue.redis.pipeline(transaction=False)
            for raw in members:
                tenant, id = redis_keys.split_member(raw.decode(errors="replace"))
                pipeline.hget(redis_keys.record(queue.pool, tenant, id), "fingerprint")
            replies = await pipeline.execute(raise_on_error=False)
            found += sum(each == fingerprint.encode() for each in replies)
            start += PAGE
    return found
