"""The database and Redis of one process: opened together, and closed however it ends."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from core.sql.database import Database


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[tuple[Database, RedisClient]]:
    """Open both; each is closed also where the other cannot be opened or closed."""
    async with AsyncExitStack() as stack:
        db = Database(settings.database_endpoint)
        stack.push_async_callback(db.close)
        redis = connect(settings)
        stack.push_async_callback(redis.aclose)
        yield db, redis
