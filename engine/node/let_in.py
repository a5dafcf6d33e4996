"""Tenants that a pool lets in, from SQL into Redis, where its scripts refuse all others.

A supervisor writes it, since no gateway may: what a gateway believes of routes decides nothing here.
"""

import asyncio

from billing.pools import tenants_let_in
from core.configuration.settings import Settings
from core.observability.telemetry import RepeatedWarning, logger
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database
from engine.queue.client import PoolQueue

log = logger(__name__)
repeated = RepeatedWarning(log)

ROUND_SECONDS = 1.0


class TenantsLetIn:
    """What one pool's supervisor writes."""

    def __init__(self, settings: Settings, queue: PoolQueue) -> None:
        self._settings = settings
        self._queue = queue

    async def run(self) -> None:
        """Write it every second, for ever. While the database is away it stays as it was written last."""
        db = Database(self._settings.database_endpoint)
        try:
            while True:
                with logged_failures(repeated, "supervisor.let_in_failed", pool=self._queue.pool):
                    await self.round(db)
                await asyncio.sleep(ROUND_SECONDS)
        finally:
            await db.close()

    async def round(self, db: Database) -> None:
        """Write it once."""
        tenants = await tenants_let_in(db, self._queue.pool)
        if await self._queue.admit(tenants):
            log.info("supervisor.let_in_changed", pool=self._queue.pool, tenants=len(tenants) or "all")
