"""The biller's metering of pools: takes ready time from Redis, and books hours that are over."""

import asyncio

from billing.dedicated_pools.posting import post_hours
from billing.dedicated_pools.store import take
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.redis.pools import known_pools
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database

log = logger(__name__)

TAKE_SECONDS = 10.0
POST_SECONDS = 60.0


class PoolMeter:
    """Meters every pool of the installation. Any number may run."""

    def __init__(self, db: Database, redis: RedisClient, settings: Settings) -> None:
        self._db = db
        self._redis = redis
        self._settings = settings

    async def run(self, stop: asyncio.Event) -> None:
        """Meter until `stop`. A failed step is tried again: Redis and SQL keep everything that was not
        done."""
        rounds = 0
        while not stop.is_set():
            with logged_failures(log, "pool_meter.run_failed"):
                await self.take()
                if rounds % round(POST_SECONDS / TAKE_SECONDS) == 0:
                    await post_hours(self._db, now_ms())
            rounds += 1
            try:
                async with asyncio.timeout(TAKE_SECONDS):
                    await stop.wait()
            except TimeoutError:
                pass

    async def take(self) -> int:
        """Take all pools' ready time; return the number of intervals."""
        pools = sorted(await known_pools(self._redis, self._settings))
        return sum([await take(self._db, self._redis, pool) for pool in pools])
