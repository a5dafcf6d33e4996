"""The client of tests: what the platform asks of Redis, typed as there, and all else that redis-py has."""

from typing import TYPE_CHECKING, Any

from core.redis.redis_connections import MultiplexedRedis

if TYPE_CHECKING:
    from core.redis.client import RedisClient

    class Redis(RedisClient):
        """One server's."""

        def __init__(self, **where: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        async def __aenter__(self) -> "Redis": ...
        async def __aexit__(self, *failed: Any) -> None: ...
        @classmethod
        def from_url(cls, url: str, **options: Any) -> "Redis": ...

        # With more than the platform asks of them.
        hset: Any
        pubsub: Any
        xadd: Any
        xreadgroup: Any
        xtrim: Any

else:
    Redis = MultiplexedRedis
