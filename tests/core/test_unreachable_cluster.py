"""A cluster that cannot be reached is told like a server that cannot be."""

import pytest
from redis.exceptions import RedisError

from core.redis.redis_connections import connect_url


async def test_an_unreachable_cluster_is_an_error_of_redis():
    """Whoever expects Redis to be away expects a RedisError."""
    client = connect_url("redis+cluster://127.0.0.1:1")
    with pytest.raises(RedisError, match="cannot be connected"):
        await client.get("a")
    await client.aclose()
