"""/healthz and /readyz: yes or no. The reasons are for operators: in the log, and beside the metrics
(core/web/metrics.py)."""

import asyncio

from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from core.clock import monotonic
from core.observability.telemetry import logger
from server.context import GatewayContext
from server.http.replies import json_reply

CHECK_SECONDS_MAX = 2.0
KEPT_SECONDS = 0.2
"""Seconds for which a result is reused, so that asking more often costs nothing more."""

log = logger(__name__)


class Health:
    """Checks of this gateway's ability to work. `draining` turns readiness off before a planned end."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self.draining = False
        self._looking = asyncio.Lock()
        self._looked_at = 0.0
        self._found: list[str] | None = None

    async def healthz(self, _request: Request) -> Response:
        """200 while the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        """200 once a worker of the default model can answer, else 503."""
        ready = not await self.missing()
        return json_reply({"ready": ready}, 200 if ready else 503)

    async def missing(self) -> list[str]:
        """The reasons why this gateway cannot answer, in words; empty when it is ready."""
        if self.draining:
            return ["the gateway is draining"]
        async with self._looking:
            if self._found is None or monotonic() - self._looked_at > KEPT_SECONDS:
                self._note(await self._look())
        return self._found or []

    def _note(self, found: list[str]) -> None:
        self._looked_at = monotonic()
        if found != self._found:
            log.info("health.readiness_changed", ready=not found, missing=found)
        self._found = found

    async def _look(self) -> list[str]:
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                async with self._context.db.engine.connect() as connection:
                    await connection.execute(text("SELECT 1"))
                return await self._missing_worker()
        except (SQLAlchemyError, TimeoutError, OSError):
            return ["the database does not answer"]
        except RedisError:
            return ["Redis does not answer"]

    async def _missing_worker(self) -> list[str]:
        default = await self._context.catalogue.default()
        if default is None:
            return [f"the model {self._context.settings.model} is not installed (parley models add)"]
        served = await self._context.catalogue.served_default()
        if served is None:
            create = f"parley pools create POOL --model {default.name}"
            return [f"no pool serves the model {default.name} ({create})"]
        model = served.record
        workers = await self._context.pools.queues[served.pool].workers()
        if any(worker.alive and worker.fingerprint == model.fingerprint for worker in workers):
            return []
        return [f"no worker of {model.name} {model.version} is ready yet"]


def missing_words(health: Health, loop: asyncio.AbstractEventLoop) -> str:
    """The same for the thread that serves the metrics."""
    try:
        asking = asyncio.run_coroutine_threadsafe(health.missing(), loop)
        return "; ".join(asking.result(2 * CHECK_SECONDS_MAX))
    except TimeoutError:
        return "the gateway's loop does not answer"
