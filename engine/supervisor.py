"""The supervisor: keeps a node's workers running, each on a leash, and the pool free of what they leave
behind.

It sees a worker's exit at once and gives the worker's requests back in the same moment, which is what makes
a crash a short pause for readers. It reports every second how its workers are, obeys what operators order
(`parley workers`), and needs no GPU.
"""

import asyncio
import contextlib
import os
import secrets

from redis.exceptions import RedisError

from billing.api import Quota
from core.redis import Client
from core.settings import Settings
from core.tasks import end_tasks
from core.telemetry import logger
from engine.fleet import Fleet, NodeReport, OrderKind
from engine.queue import PoolQueue
from engine.reaper import Reaper
from engine.slot import Slot

log = logger(__name__)

REPORT_SECONDS = 1.0
ORDER_WAIT_SECONDS = 1.0


class Supervisor:
    """Runs `workers` workers of one pool on this node."""

    def __init__(self, settings: Settings, redis: Client, workers: int) -> None:
        self._name = f"{settings.node}-{secrets.token_hex(4)}"
        self._settings = settings
        self._queue = PoolQueue(redis, settings.pool, settings)
        self._fleet = Fleet(self._queue)
        self._reaper = Reaper(self._queue, Quota(redis, settings), settings.reap_interval_ms)
        self._changed = asyncio.Event()
        self._slots = [
            Slot(settings, self._queue, index, workers, self._changed.set) for index in range(workers)
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then the workers drain and end."""
        beside = [asyncio.create_task(loop) for loop in (self._reaper.run(), self._watch(), self._obey())]
        try:
            async with asyncio.TaskGroup() as group:
                for slot in self._slots:
                    group.create_task(slot.keep(stop))
        finally:
            await end_tasks(beside)
            with contextlib.suppress(RedisError, OSError):
                await self._fleet.leave(self._name)

    async def _watch(self) -> None:
        """Look at the workers and say how they are, for ever."""
        while True:
            self._changed.clear()
            try:
                registered = {view.worker for view in await self._queue.workers()}
                for slot in self._slots:
                    slot.seen(registered)
                await self._fleet.report(self._report())
            except (RedisError, OSError) as error:
                log.warning("report failed", error=type(error).__name__)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._changed.wait()

    def _report(self) -> NodeReport:
        slots = [slot.report() for slot in self._slots]
        return NodeReport(self._name, self._settings.node, os.getpid(), slots)

    async def _obey(self) -> None:
        """Orders as they come, for ever."""
        while True:
            try:
                order = await self._fleet.next_order(self._name, ORDER_WAIT_SECONDS)
            except (RedisError, OSError):
                await asyncio.sleep(ORDER_WAIT_SECONDS)
                continue
            if order is not None and order.kind is OrderKind.KILL:
                for slot in self._slots:
                    if slot.worker == order.worker:
                        slot.kill()
