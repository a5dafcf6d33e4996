"""What runs in a pool now, from the engine's keys in Redis."""

from core.access.processes import POOLS
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.members import readable
from core.redis.pools import known_pools

RUNNING_KEYS = ("P:run:", POOLS)
LIVE_KEYS = ("P:deadlines", "P:moving", "P:workers")


async def live_in(redis: RedisClient, pool: str) -> tuple[int, int]:
    """Open requests of a pool, those on their way to another included, and registered workers."""
    deadlines, moving, workers = (f"{{p:{pool}}}{name}" for name in ("deadlines", "moving", "workers"))
    return await redis.zcard(deadlines) + await redis.zcard(moving), await redis.zcard(workers)


async def running_in(redis: RedisClient, settings: Settings, tenant_id: str) -> dict[str, int]:
    """How many requests of a tenant each pool runs."""
    pools = sorted({settings.pool, *await known_pools(redis, settings)})
    pipeline = redis.pipeline(transaction=False)
    for pool in pools:
        pipeline.scard(f"{{p:{pool}}}run:{tenant_id}")
    replies = await pipeline.execute(raise_on_error=False)
    return dict(readable("{p:}run:", pools, replies))
