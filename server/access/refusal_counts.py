"""Counts this gateway's refusals, by caller and reason: by the second on a bounded stream, which a biller
stores (billing/requests). Noting one is a look into a dict; nothing waits for Redis, and memory is bounded,
however many refusals there are and however long Redis is away."""

import asyncio

from redis.exceptions import RedisError

from billing.api import Principal, RefusalTally
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.ids import uuid7_ms
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.redis.client import RedisClient

FLUSH_SECONDS = 1.0
FLUSH_SECONDS_MAX = 2.0

log = logger(__name__)


class RefusalNotes:
    """One gateway's counts of refusals."""

    def __init__(self, redis: RedisClient, settings: Settings) -> None:
        self._tally = RefusalTally(redis, settings.installation)

    @property
    def rows(self) -> int:
        """Number of counts in memory."""
        return self._tally.rows

    def note(self, principal: Principal, id: str, user: str, refused: Refusal) -> None:
        """Count a refused send. `id`: its request id as sent; `user`: id of the user it would be charged to,
        as far as known."""
        parts = (refused.text.category, "block") if refused.text else (refused.scope, refused.dimension)
        limit = " ".join(part for part in parts if part)
        known_id = id if uuid7_ms(id) is not None else ""
        self._tally.add((principal.tenant, principal.key, user), str(refused.code), limit, known_id, now_ms())

    async def run(self) -> None:
        """Send new counts every second, for ever."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Send new counts now. After a failure they stay in memory and grow no further."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS_MAX):
                await self._tally.tell()
        except (RedisError, OSError) as error:  # a TimeoutError is an OSError
            log.warning("refusal_counts.flush_failed", error=error_summary(error))
