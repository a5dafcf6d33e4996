"""What is good once: Redis is told that it is spent, and told nothing else."""

import secrets

from core.redis import redis_errors
from core.redis.client import RedisClient

# Whoever looks at an expiry may have a clock that is behind that of who marked it as spent.
CLOCKS_DIFFER_MS = 60_000


async def use_once(redis: RedisClient, name: str, kept_ms: int) -> bool:
    """Whether nobody has spent this before; it is spent from now on. `kept_ms`: how long it could still be
    shown. A call that is repeated, as the connection was lost, finds its own mark and is not refused."""
    mark, lasts_ms = secrets.token_bytes(8), max(1, kept_ms) + CLOCKS_DIFFER_MS
    try:
        before = await _mark(redis, name, mark, lasts_ms)
    except redis_errors.ConnectionError:
        before = await _mark(redis, name, mark, lasts_ms)
    return before is None or before == mark


async def _mark(redis: RedisClient, name: str, mark: bytes, lasts_ms: int) -> bytes | None:
    """What was there before; then it stays. On the shared connection it costs half of what one of the pool's
    does."""
    return await redis.at_once("SET", name, mark, "NX", "GET", "PX", lasts_ms)
