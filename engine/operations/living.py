"""Names the processes of a pool whose leases are not over, for whoever may not work beside them."""

from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.members import names, reading
from engine.node.reports import PoolNodes
from engine.queue import redis_keys
from engine.queue.client import PoolQueue

NAMED_MAX = 20


async def living_processes(redis: RedisClient, pool: str, settings: Settings) -> list[str]:
    """Workers, gateways and supervisors of a pool, at most NAMED_MAX of a kind. One that was killed counts
    until its lease is over, which takes seconds."""
    found: list[str] = []
    for kind, key in (("worker", redis_keys.workers(pool)), ("gateway", redis_keys.gateways(pool))):
        living = redis.zrange(key, now_ms(), "+inf", byscore=True, offset=0, num=NAMED_MAX)
        found += [f"{kind} {name}" for name in names(key, await reading(key, living, []))]
    reports = await PoolNodes(PoolQueue(redis, pool, settings)).reports()
    return found + [f"supervisor {each.supervisor} on {each.node}" for each in reports[:NAMED_MAX]]
