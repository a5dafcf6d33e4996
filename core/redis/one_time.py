"""Things that are good once: Redis keeps a mark that one is spent, and nothing else of it."""

import secrets

from core.redis import redis_errors
from core.redis.client import RedisClient

# A process that checks an expiry may have a clock behind that of the process that marked it as spent.
CLOCKS_DIFFER_MS = 60_000


async def use_once(redis: RedisClient, name: str, kept_ms: int) -> bool:
    """Mark a name as spent; True where nobody had spent it before. `kept_ms`: time for which it could still
    be shown. A call repeated after a lost connection finds its own mark and succeeds."""
    mark, lasts_ms = secrets.token_bytes(8), max(1, kept_ms) + CLOCKS_DIFFER_MS
    try:
        before = await _mark(redis, name, mark, lasts_ms)
    except redis_errors.ConnectionError:
        before = await _mark(redis, name, mark, lasts_ms)
    return before is None or before == mark


async def _mark(redis: RedisClient, name: str, mark: bytes, lasts_ms: int) -> bytes | None:
    """The mark that was there before, which stays; None where this call set it. The shared connection costs
    half of what one of the pool's does."""
    return await redis.at_once("SET", name, mark, "NX", "GET", "PX", lasts_ms)
