"""Which pools an installation has: every pool that a worker ever joined, or a request was moved to.

Whoever serves all of them (gateways, billers) looks here. Nothing is ever taken out: an empty pool costs
nothing.
"""

from typing import Any

from core.redis import Client

KEY = "parley:pools"


async def announce_pool(redis: Client, pool: str) -> None:
    """The pool exists from now on. Before anything is written to it."""
    client: Any = redis  # redis-py types its replies as unions of its sync and async forms
    await client.sadd(KEY, pool)


async def known_pools(redis: Client) -> set[str]:
    """Their names."""
    client: Any = redis
    return {name.decode() for name in await client.smembers(KEY)}
