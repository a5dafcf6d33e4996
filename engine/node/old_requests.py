"""Ends what still pins an old version of its pool's model once the time that its operator gave it is over.

A running request is its worker's: the controller lets the old workers go, and what they give back is ended
here.
"""

import asyncio
from contextlib import aclosing

from billing.api import Quota
from billing.pools import DesiredPool, read_pools
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import RepeatedWarning, logger
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database
from engine.lifecycle.finish import end_unclaimed
from engine.models.registry import find_version
from engine.queue.client import PoolQueue
from engine.queue.living_requests import living_requests
from engine.request import EndReason

log = logger(__name__)
repeated = RepeatedWarning(log)

ROUND_SECONDS = 2.0
CODE = "engine_lost"  # its sender may send it again, to the version in use


class OldRequests:
    """What one pool's supervisor ends."""

    def __init__(self, settings: Settings, queue: PoolQueue, quota: Quota) -> None:
        self._settings = settings
        self._queue = queue
        self._quota = quota

    async def run(self) -> None:
        """Look every two seconds, for ever. While the database is away nothing is ended."""
        db = Database(self._settings.database_endpoint)
        try:
            while True:
                with logged_failures(repeated, "supervisor.old_requests_failed", pool=self._queue.pool):
                    await self.round(db, now_ms())
                await asyncio.sleep(ROUND_SECONDS)
        finally:
            await db.close()

    async def round(self, db: Database, now_ms: int) -> int:
        """End those whose time is over; how many."""
        pool = next((each for each in await read_pools(db) if each.pool == self._queue.pool), None)
        if pool is None or not is_over(pool, now_ms):
            return 0
        in_use = await find_version(db, pool.model, pool.version)
        if in_use is None:
            return 0
        ended = 0
        async with aclosing(living_requests(self._queue.redis, pool.pool)) as requests:
            old = [each async for each in requests if each.fingerprint != in_use.fingerprint]
        for each in old:
            ended += await end_unclaimed(
                self._queue, self._quota, each.tenant, each.id, EndReason.ERROR, CODE
            )
        if ended:
            log.info("supervisor.old_requests_ended", pool=pool.pool, requests=ended, version=pool.version)
        return ended


def is_over(pool: DesiredPool, now_ms: int) -> bool:
    """True once what pins another version than the one in use is to be ended. Pure."""
    return 0 < pool.old_until_ms <= now_ms
