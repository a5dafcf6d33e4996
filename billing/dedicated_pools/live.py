"""What runs in a pool now, from the engine's keys in Redis."""

from core.redis.client import RedisClient

LIVE_KEYS = ("P:deadlines", "P:moving", "P:workers")


async def live_in(redis: RedisClient, pool: str) -> tuple[int, int]:
    """Open requests of a pool, those on their way to another included, and registered workers."""
    deadlines, moving, workers = (f"{{p:{pool}}}{name}" for name in ("deadlines", "moving", "workers"))
    return await redis.zcard(deadlines) + await redis.zcard(moving), await redis.zcard(workers)
