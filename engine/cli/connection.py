"""A connection of this package's commands to a pool, with their message where Redis does not answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from redis.exceptions import RedisError

from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.store_errors import redis_failure
from engine.operations.inspection import Inspection
from engine.queue.client import PoolQueue

T = TypeVar("T")

pool_option = click.option("--pool", help="By default PARLEY_POOL.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def in_pool(name: str | None, action: Callable[[Inspection], Awaitable[T]]) -> T:
    """Run `action` on the pool. A failure is one line on stderr and exit code 1 (StartupError)."""
    settings = Settings()

    async def connected() -> T:
        redis = connect(settings)
        try:
            return await action(Inspection(PoolQueue(redis, name or settings.pool, settings)))
        finally:
            await redis.aclose()

    try:
        return asyncio.run(connected())
    except (RedisError, OSError) as error:
        raise redis_failure(error, settings) from error
