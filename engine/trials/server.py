"""Trials of shapes for gateways: a node with the engine's libraries takes them from the pool's list and
writes the verdicts to the pool. Run by supervisors, and by workers without one.

A gateway leaves `trial:<tenant>:<name>` (the shape, for some seconds) and the name in `trials:<fingerprint>`;
the reply is `verdict:<name>`, empty where nothing is wrong, and is kept for an hour. `<name>` is the hash of
shape and fingerprint.
"""

import asyncio
import contextlib
import os
from importlib.util import find_spec
from typing import Any

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from core.configuration.settings import Settings
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.models.known import model_of_pool
from engine.models.registry import ModelRecord
from engine.queue import redis_keys
from engine.trials.host_process import TrialRunner
from engine.trials.trial_queue import TrialQueue

log = logger(__name__)
repeated = RepeatedWarning(log)

AT_ONCE_MIN, AT_ONCE_MAX = 2, 4
WAIT_SECONDS = 1.0
RETRY_SECONDS = 5.0
MODEL_SECONDS = 10.0
VERDICT_SECONDS = 3600


def can_try() -> bool:
    """True where the grammar compiler is installed here."""
    return find_spec("xgrammar") is not None


class TrialServer:
    """Tries shapes for one pool and model until its task is cancelled."""

    def __init__(self, settings: Settings, redis: RedisClient, record: ModelRecord | None = None) -> None:
        self._settings = settings
        self._record = record
        self._redis = redis
        self._lanes = TrialQueue()
        self._tasks = set[asyncio.Task[None]]()
        self._at_once = max(AT_ONCE_MIN, min(AT_ONCE_MAX, (os.cpu_count() or 1) // 2))

    async def run(self) -> None:
        """Serve for ever, for the registered model, or the given one."""
        record = self._record or await self._model()
        while True:
            trier = TrialRunner(record.folder, self._settings.home / "logs" / "trials.log")
            serving = asyncio.create_task(self.serve(trier, record.fingerprint))
            try:
                record = await self._another(record)
            finally:
                await cancel_tasks([serving])
                await trier.close()

    async def serve(self, trier: Any, fingerprint: str) -> None:
        """Take trials of this model, for ever. A Redis that does not answer is tried again."""
        asked = redis_keys.trials(self._settings.pool, fingerprint)
        try:
            while True:
                try:
                    found = await self._redis.blpop([asked], timeout=WAIT_SECONDS)
                except (RedisError, OSError) as error:
                    repeated.warning("trials.run_failed", error=type(error).__name__)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if found is not None:
                    await self._line_up(found[1])
                self._begin(trier)
        finally:
            await cancel_tasks(self._tasks)

    async def _line_up(self, member: bytes) -> None:
        asked = read("trial", lambda data: redis_keys.split_member(data.decode()), member)
        if isinstance(asked, Unreadable):
            repeated.warning("trials.entry_unreadable", error=asked.why)
            return
        tenant, name = asked
        if not self._lanes.add(tenant, name):
            with contextlib.suppress(RedisError, OSError):  # so that it can be asked for again
                await self._redis.delete(redis_keys.trial(self._settings.pool, tenant, name))

    def _begin(self, trier: Any) -> None:
        while len(self._tasks) < self._at_once and (taken := self._lanes.take()):
            task = asyncio.create_task(self._try(trier, *taken))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._ended(trier, done))

    def _ended(self, trier: Any, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._begin(trier)

    async def _try(self, trier: Any, tenant: str, name: str) -> None:
        pool = self._settings.pool
        try:
            with logged_failures(repeated, "trials.trial_failed"):
                asked, verdict = redis_keys.trial(pool, tenant, name), redis_keys.verdict(pool, name)
                packed = await self._redis.get(asked)
                if packed is None:
                    return
                shape = read("shape", bytes.decode, packed)
                if isinstance(shape, Unreadable):
                    repeated.warning("trials.format_unreadable", tenant=tenant, error=shape.why)
                elif not await self._redis.exists(verdict):
                    problem = await trier.problem(shape)
                    if problem is not None:
                        log.info("trials.finished", tenant=tenant, good=not problem)
                        await self._redis.set(verdict, problem.encode(), ex=VERDICT_SECONDS)
                await self._redis.delete(asked)
        finally:
            self._lanes.done(tenant)

    async def _another(self, record: ModelRecord) -> ModelRecord:
        """Wait until another version is registered."""
        while True:
            await asyncio.sleep(MODEL_SECONDS)
            if self._record is None and (found := await self._model()).fingerprint != record.fingerprint:
                return found

    async def _model(self) -> ModelRecord:
        """Wait until the model is registered."""
        while True:
            db = Database(self._settings.database_endpoint)
            try:
                if record := await model_of_pool(db, self._settings):
                    return record
            except (SQLAlchemyError, OSError) as error:
                repeated.warning("trials.run_failed", error=type(error).__name__)
            finally:
                await db.close()
            await asyncio.sleep(RETRY_SECONDS)
