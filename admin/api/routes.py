"""The API: a route for each registered operation, `/api/me`, `/api/changes` and `/openapi.json`.

A route reads the call, performs its operation as whoever signed in, and answers its struct as JSON.
"""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

import msgspec
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from admin.api import openapi
from admin.api.bodies import CallBodies
from admin.api.callers import ApiCallers
from admin.api.file_reply import FileReply
from admin.api.problems import problem
from admin.api.reading import read_call
from admin.api.still import may_still
from billing.api import LongRuns, Performed, StartedRun, Stores, perform_or_propose
from core.errors import Refusal, Refused
from core.file_answer import FileAnswer
from core.observability.telemetry import logger
from core.operations import Operation, shown_secrets

NO_STORE = {"cache-control": "no-store"}

log = logger(__name__)


class ApiRoutes:
    """Routes of some operations over one installation's stores."""

    def __init__(
        self, stores: Stores, runs: LongRuns, callers: ApiCallers, operations: Sequence[Operation]
    ) -> None:
        self._stores = stores
        self._runs = runs
        self._callers = callers
        self._operations = tuple(operations)
        self._bodies = CallBodies()

    def routes(self) -> list[BaseRoute]:
        """All routes, those with fewer fields in their path first."""
        every = sorted(self._operations, key=lambda each: (len(each.path_fields), each.path))
        return [
            Route("/openapi.json", self._document, methods=["GET"]),
            *(
                Route(f"/api{each.path}", partial(self._call, each), methods=[each.method], name=each.name)
                for each in every
            ),
        ]

    async def _document(self, _request: Request) -> Response:
        """What the API takes and answers, for anybody: it holds nothing of this installation."""
        content = openapi.encoded(self._operations, version("parley"), self._callers.side.cookie)
        return Response(content, media_type="application/json")

    async def _call(self, declared: Operation, request: Request) -> Response:
        try:
            who = await self._callers.actor_of(request, declared)
            body, query = await self._bodies.read(request, who.caller), request.query_params.multi_items()
            call = read_call(declared, request.path_params, query, body, request.headers)
            if declared.long:
                done = await self._runs.perform(who, declared, call.ask, call.terms)
            else:
                done = await perform_or_propose(self._stores, who, declared, call.ask, call.terms)
        except Refused as refused:
            return problem(refused.refusal)
        except (RedisError, SQLAlchemyError, OSError) as error:
            log.warning("api.store_failed", operation=declared.name, error=type(error).__name__)
            return problem(Refusal("overloaded", "a store does not answer now", retry=True, after_ms=2000))
        if isinstance(done.answer, FileAnswer):
            return FileReply(done.answer, partial(may_still, self._stores, who))
        return _reply(declared, done)


def _reply(declared: Operation, done: Performed) -> Response:
    if done.untold is not None:
        log.warning("api.untold", operation=declared.name, error=type(done.untold).__name__)
    if done.kept is None:
        content = msgspec.json.encode(done.answer, enc_hook=shown_secrets)
    else:
        content = done.kept.encode()
    run = _run_of(declared, done)
    later = done.waits or run is not None
    reply = Response(content, 202 if later else 200, NO_STORE, "application/json")
    if later:
        reply.headers["location"] = "/api/approvals" if run is None else f"/api/runs/{run}"
    if done.afterwards is not None:
        reply.background = BackgroundTask(done.afterwards)
    if done.version is not None:
        reply.headers["etag"] = f'"{done.version}"'
    if done.dry_run:
        reply.headers["x-parley-dry-run"] = "true"
    if done.moved_nano:
        reply.headers["x-parley-moves"] = str(done.moved_nano)
        reply.headers["x-parley-unasked"] = str(done.unasked_nano)
    if done.second_person:
        reply.headers["x-parley-second-person"] = done.second_person
    if done.kept is not None:
        reply.headers["idempotency-replayed"] = "true"
    return reply


def _run_of(declared: Operation, done: Performed) -> str | None:
    """The run as which a call goes on, or went on under its key before."""
    if done.kept is not None and declared.long:
        return msgspec.json.decode(done.kept, type=StartedRun).run
    return done.run
