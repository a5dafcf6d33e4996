"""The reaper: requeues what dead workers held, ends what nobody can run and, where it has the signing secret,
finishes migrations that were left half done. Any number may run, anywhere."""

import asyncio
import time

from redis.exceptions import RedisError, ResponseError

from billing.api import Quota
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.dropped_keys import tell_dropped
from core.redis.members import set_aside
from core.runtime.failed_rounds import logged_failures, store_errors
from core.signing.signed_text import Keyring
from engine import instruments
from engine.lifecycle.finish import end_overdue_migration, end_unclaimed
from engine.lifecycle.migration import MigrationNotOrdered, Migrator
from engine.lifecycle.pool_levels import sample_levels
from engine.lifecycle.stale_admissions import SWEEP_SECONDS, release_stale_admissions
from engine.queue.client import PoolQueue
from engine.queue.types import ExpiredRequest

UNORDERED_MAX = 1_000  # requests that are named in the log; a worker could make up any number
SWEEP_SHARE = 0.9  # share of the time between two sweeps in which no other reaper begins one

log = logger(__name__)
repeated = RepeatedWarning(log)


class Reaper:
    """Reaps one pool at a fixed interval until its task is cancelled. Without a `keyring`, as in a
    supervisor, it leaves migrations to gateways."""

    def __init__(
        self, queue: PoolQueue, quota: Quota, interval_ms: int, keyring: Keyring | None = None
    ) -> None:
        self._queue = queue
        self._quota = quota
        self._mover = Migrator(queue.redis, queue.settings, keyring) if keyring else None
        self._unordered = set[tuple[str, str]]()
        self._interval_seconds = interval_ms / 1000
        self._sweep_due = time.monotonic() + SWEEP_SECONDS

    async def run(self) -> None:
        """Reap for ever. A Redis that does not answer is tried again."""
        while True:
            with logged_failures(log, "reaper.run_failed", pool=self._queue.pool):
                await self.once()
            if time.monotonic() >= self._sweep_due:
                self._sweep_due = time.monotonic() + SWEEP_SECONDS
                with logged_failures(log, "reaper.stale_admissions_failed", pool=self._queue.pool):
                    await self.sweep()
            await asyncio.sleep(self._interval_seconds)

    async def sweep(self) -> None:
        """Release admissions whose requests never came, tell what scripts dropped, and sample the pool's
        levels. Of all reapers one does at a time."""
        try:
            if not await self._queue.may_sweep(SWEEP_SECONDS * SWEEP_SHARE):
                return
            instruments.stale_admissions_released.add(
                await release_stale_admissions(self._queue, self._quota)
            )
            tenants = sorted(await self._quota.open_tenants())
            slots = [f"{{p:{self._queue.pool}}}", *(f"{{t:{tenant}}}" for tenant in tenants)]
            await tell_dropped(self._queue.redis, slots)
            await sample_levels(self._queue)
        except (RedisError, OSError) as error:
            repeated.warning("reaper.stale_admissions_failed", error=error_summary(error))

    async def once(self) -> None:
        """Reap once."""
        try:
            reaped = await self._queue.reap(moves=self._mover is not None)
            for expired in reaped.expired:
                await self._end(expired)
        except (RedisError, OSError, ValueError) as error:
            repeated.warning("reaper.run_failed", error=error_summary(error))
            return
        if self._mover is not None:
            for tenant, id in reaped.moves:
                await self._finish_move(self._mover, tenant, id)
        set_aside(f"{{p:{self._queue.pool}}}", reaped.odd)
        instruments.requeued_requests.add(reaped.requeued)
        if reaped.requeued or reaped.dead_readers:
            log.info("reaper.requeued", requeued=reaped.requeued, dead_readers=reaped.dead_readers)

    async def _end(self, expired: ExpiredRequest) -> None:
        tenant, id, reason, code = expired.tenant, expired.id, expired.reason, expired.code
        try:
            ended = await end_unclaimed(self._queue, self._quota, tenant, id, reason, code or None)
        except Exception as error:  # its keys are not what they should be: the others must not suffer
            if isinstance(error, store_errors()) and not isinstance(error, ResponseError):
                raise
            log.error("reaper.end_failed", tenant=tenant, id=id, error=error_summary(error))
            return
        if ended:
            instruments.reaper_ends.add(1, {"reason": reason})
            log.info("request.ended", by="reaper", tenant=tenant, id=id, reason=reason, code=code)

    async def _finish_move(self, mover: Migrator, tenant: str, id: str) -> None:
        """Finish a migration. The new pool's node may not answer, so the others do not wait for it."""
        try:
            finished = await mover.finish(self._queue.pool, tenant, id)
        except MigrationNotOrdered:
            await self._end_or_say(tenant, id)
            return
        except (RedisError, OSError, ValueError, KeyError) as error:
            log.warning("migration.finish_failed", tenant=tenant, id=id, error=error_summary(error))
            return
        if finished:
            log.info("migration.finished", tenant=tenant, id=id)

    async def _end_or_say(self, tenant: str, id: str) -> None:
        """End a migrating request without a valid order once its deadline is over, which gives back its hold;
        until then log it, and leave it for a new order."""
        try:
            ended = await end_overdue_migration(self._queue, self._quota, tenant, id)
        except (RedisError, OSError, ValueError, KeyError) as error:
            log.warning("migration.end_failed", tenant=tenant, id=id, error=error_summary(error))
            return
        if ended:
            instruments.reaper_ends.add(1, {"reason": "deadline"})
            log.info("request.ended", by="reaper", tenant=tenant, id=id, reason="deadline", code="")
        else:
            self._log_unordered(tenant, id)

    def _log_unordered(self, tenant: str, id: str) -> None:
        """Log it, once a request."""
        if (tenant, id) not in self._unordered and len(self._unordered) < UNORDERED_MAX:
            self._unordered.add((tenant, id))
            log.error(
                "migration.not_ordered",
                hint="`parley requests migrate` orders it anew",
                pool=self._queue.pool,
                tenant=tenant,
                id=id,
            )
