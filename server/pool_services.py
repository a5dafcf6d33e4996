"""Services of pools at a gateway: of its own, and of every other once the gateway hears of it."""

import asyncio

from redis.exceptions import RedisError

from core.observability.telemetry import logger
from core.redis.pools import known_pools
from core.tasks import EndingTaskGroup
from engine.api import JournalKeeper, Reaper
from server.context import GatewayContext

LOOK_SECONDS = 2.0
REAP_SLOWER = 4

log = logger(__name__)


class PoolServices:
    """Runs recorder, reaper and the like for each pool."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def run(self) -> None:
        """Record ended answers and reap, in all pools, for ever."""
        served = set[str]()
        async with EndingTaskGroup() as group:
            while True:
                for pool in sorted({*self._context.pools.queues, *await self._known()} - served):
                    served.add(pool)
                    log.info("pools.serving", pool=pool)
                    self._context.pools.serve(pool)
                    group.create_task(self._context.pools.recorders[pool].run())
                    group.create_task(self._reaper(pool).run())
                    if journal := self._context.journals.of(pool):
                        group.create_task(journal.run())
                        group.create_task(JournalKeeper(self._context.pools.queues[pool], journal).run())
                    self._context.terms.pool_added()
                await asyncio.sleep(LOOK_SECONDS)

    async def _known(self) -> set[str]:
        try:
            return await known_pools(self._context.redis, self._context.settings)
        except (RedisError, OSError) as error:
            log.warning("pools.list_failed", error=type(error).__name__)
            return set()

    def _reaper(self, pool: str) -> Reaper:
        """A reaper, for when no supervisor lives: accepted requests still end in time, if later than by
        theirs."""
        context = self._context
        interval_ms = context.settings.reap_interval_ms * REAP_SLOWER
        return Reaper(context.pools.queues[pool], context.quota, interval_ms, context.settings.keyring)
