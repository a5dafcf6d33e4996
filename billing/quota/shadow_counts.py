"""Counts of requests that limits in shadow mode would have refused, by scope and dimension."""

from collections.abc import Mapping, Sequence

from core.errors import Refusal
from core.redis.client import RedisClient


async def count_shadowed(redis: RedisClient, tenant: str, refusals: Sequence[Refusal]) -> None:
    """Add one for each of these refusals."""
    pipeline = redis.pipeline(transaction=False)
    for refused in refusals:
        pipeline.hincrby(_key(tenant), f"{refused.scope}:{refused.dimension}", 1)
    await pipeline.execute()


async def shadow_refusals(redis: RedisClient, tenant: str) -> dict[tuple[str, str], int]:
    """Counts so far by scope and dimension (a policy's, or a budget's period)."""
    found: Mapping[bytes, bytes] = await redis.hgetall(_key(tenant))
    counted: dict[tuple[str, str], int] = {}
    for name, count in found.items():
        scope, _, dimension = name.decode().partition(":")
        counted[scope, dimension] = int(count)
    return counted


def _key(tenant: str) -> str:
    return f"{{t:{tenant}}}shadowed"
