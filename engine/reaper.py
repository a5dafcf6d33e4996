"""The reaper: requeues what dead workers held, ends what nobody can run and finishes moves to other pools
that somebody left half done. Any number may run, anywhere."""

import asyncio
import time

from redis.exceptions import RedisError, ResponseError

from billing.api import Quota
from core.faults import named
from core.telemetry import Seldom, logger
from engine import instruments
from engine.ending import end_unclaimed
from engine.mover import Mover
from engine.queue import PoolQueue
from engine.queue_types import Expired
from engine.sweep import SWEEP_SECONDS, sweep

SWEPT_FOR = 0.9  # of the time between two sweeps nobody else begins one

log = logger(__name__)
away = Seldom(log)


class Reaper:
    """Reaps one pool at a fixed interval until its task is cancelled."""

    def __init__(self, queue: PoolQueue, quota: Quota, interval_ms: int) -> None:
        self._queue = queue
        self._quota = quota
        self._mover = Mover(queue.redis, queue.settings)
        self._interval_seconds = interval_ms / 1000
        self._sweep_due = time.monotonic() + SWEEP_SECONDS

    async def run(self) -> None:
        """For ever. A Redis that does not answer is tried again."""
        while True:
            await self.once()
            if time.monotonic() >= self._sweep_due:
                self._sweep_due = time.monotonic() + SWEEP_SECONDS
                await self.sweep()
            await asyncio.sleep(self._interval_seconds)

    async def sweep(self) -> None:
        """Give back what was admitted and never came. Of all reapers, one at a time does."""
        try:
            if not await self._queue.may_sweep(SWEEP_SECONDS * SWEPT_FOR):
                return
            instruments.swept_admissions.add(await sweep(self._queue, self._quota))
        except (RedisError, OSError) as error:
            away.warning("sweep failed", error=named(error))

    async def once(self) -> None:
        """One round."""
        try:
            reaped = await self._queue.reap()
            for expired in reaped.expired:
                await self._end(expired)
        except (RedisError, OSError, ValueError) as error:
            away.warning("reap failed", error=named(error))
            return
        for tenant, id in reaped.moves:
            await self._finish_move(tenant, id)
        instruments.requeued_requests.add(reaped.requeued)
        if reaped.requeued or reaped.dead_readers:
            log.info("reaped", requeued=reaped.requeued, dead_readers=reaped.dead_readers)

    async def _end(self, expired: Expired) -> None:
        tenant, id, reason, code = expired.tenant, expired.id, expired.reason, expired.code
        try:
            ended = await end_unclaimed(self._queue, self._quota, tenant, id, reason, code or None)
        except (ResponseError, ValueError, KeyError) as error:
            # Its keys are not what they should be: the others must not suffer.
            log.error("request not ended", tenant=tenant, id=id, error=named(error))
            return
        if ended:
            instruments.orphan_ends.add(1, {"reason": reason})
            log.info("request ended", tenant=tenant, id=id, reason=reason, code=code)

    async def _finish_move(self, tenant: str, id: str) -> None:
        """The new pool may be on a node that does not answer: the others must not wait for it."""
        try:
            finished = await self._mover.finish(self._queue.pool, tenant, id)
        except (RedisError, OSError, ValueError, KeyError) as error:
            log.warning("move not finished", tenant=tenant, id=id, error=named(error))
            return
        if finished:
            log.info("move finished", tenant=tenant, id=id)
