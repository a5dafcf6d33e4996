"""/healthz, /readyz and /metrics."""

import asyncio

from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from core.telemetry import prometheus_page
from server.edge import Edge
from server.http.replies import json_reply

CHECK_SECONDS_MAX = 2.0


class Health:
    """Whether this gateway can do its work. `draining` turns readiness off before a planned end."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self.draining = False

    async def healthz(self, _request: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        """200 once a worker of the default model can answer; else 503 with what is missing."""
        missing = await self.missing()
        return json_reply({"ready": not missing, "missing": missing}, 503 if missing else 200)

    async def metrics(self, _request: Request) -> Response:
        """Prometheus' text format."""
        return Response(await asyncio.to_thread(prometheus_page), media_type="text/plain; version=0.0.4")

    async def missing(self) -> list[str]:
        """What stands between this gateway and an answer, in words; empty when it is ready."""
        if self.draining:
            return ["the gateway is draining"]
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                async with self._edge.db.engine.connect() as connection:
                    await connection.execute(text("SELECT 1"))
                return await self._missing_worker()
        except (SQLAlchemyError, TimeoutError, OSError):
            return ["the database does not answer"]
        except RedisError:
            return ["Redis does not answer"]

    async def _missing_worker(self) -> list[str]:
        model = await self._edge.catalogue.default()
        if model is None:
            return [f"the model {self._edge.settings.model} is not installed (parley models add)"]
        workers = await self._edge.queues[model.pool].workers()
        if any(worker.alive and worker.fingerprint == model.fingerprint for worker in workers):
            return []
        return [f"no worker of {model.name} {model.version} is ready yet"]
