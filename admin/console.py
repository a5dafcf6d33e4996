"""`parley console`: pages for operators. Read-only: workers, queue, running requests, usage by tenant, books
that do not agree, noisy tenants, refusals, and one request explained. For tenants' services it serves the
usage API (admin/usage).

Signing in takes a one-time link (`parley up` prints one, `parley console --link` makes one). The page is
static; its script asks these routes and builds the DOM, under the same policy as the chat page.
"""

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from admin.findings import ComparisonOverview, read_comparisons, read_noisy
from admin.operators import OperatorSessions, operator_code_on_record
from admin.status import read_status
from admin.usage.routes import UsageRoutes
from billing.api import MEANING, Comparison, Reconciliation, RefusalPage, RefusalSearch, find_refusals
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.names import checked_name
from core.network.addresses import address_of
from core.network.hosts import is_loopback
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.runtime import service
from core.sql.database import Database, require_schema
from core.sql.stores import open_stores
from core.terminal.terminal import print_line
from core.web import http
from core.web.http import listen
from core.web.local_urls import console_url
from core.web.metrics import CONSOLE_PLACE, serving_metrics_async
from engine.api import Explained, explain_request
from server.api import (
    CallRates,
    ErrorCode,
    LimitedCalls,
    SecurityHeaders,
    guarded,
    origin_allowed,
    refusal,
    refused_reply,
)

WEB = Path(__file__).parent / "web"
COMPARED_SECONDS = 10.0
HOUR_MS = 3_600_000
REFUSALS_MAX = 50

log = logger(__name__)


class Console:
    """The console's routes over one database and one Redis."""

    def __init__(self, settings: Settings, redis: RedisClient, db: Database) -> None:
        self._settings = settings
        self._redis = redis
        self._db = db
        self._sessions = OperatorSessions(settings, redis, db)
        self.rates = CallRates(settings)
        self._usage = UsageRoutes(settings, db, self.rates)
        self._comparing = asyncio.Lock()
        self._compared: tuple[float, Sequence[Comparison]] = (-math.inf, [])

    def app(self) -> ASGIApp:
        """The ASGI application, without the security headers."""
        return LimitedCalls(guarded(self.routes()), self.rates)

    def routes(self) -> list[BaseRoute]:
        """All routes of the console."""
        return [
            Route("/", self.page, methods=["GET"]),
            Route("/api/login", self.login, methods=["POST"]),
            Route("/api/logout", self.logout, methods=["POST"]),
            Route("/api/status", self.status, methods=["GET"]),
            Route("/api/books", self.books, methods=["GET"]),
            Route("/api/noisy", self.noisy, methods=["GET"]),
            Route("/api/refusals", self.refusals, methods=["GET"]),
            Route("/api/requests/{id}", self.explained, methods=["GET"]),
            Route("/api/reconciliation", self.reconciliation, methods=["GET"]),
            *self._usage.routes(),
            Route("/healthz", self.healthz, methods=["GET"]),
            Mount("/web", StaticFiles(directory=WEB)),
        ]

    async def page(self, _request: Request) -> Response:
        """The page itself, which holds nothing secret."""
        return FileResponse(WEB / "console.html", media_type="text/html; charset=utf-8")

    async def login(self, request: Request) -> Response:
        """Exchange a one-time code for a session."""
        self.rates.signin(address_of(request.scope))
        if not origin_allowed(request, self._settings):
            return _error(403, "this Origin is not allowed")
        reply = _json({})
        after_ms = await self._sessions.sign_in(request, request.headers.get("x-parley-code", ""), reply)
        if after_ms:
            problem = f"too many failed sign-ins from this address: try again after {after_ms} ms"
            raise Refused(refusal(ErrorCode.RATE_LIMITED, problem, after_ms=after_ms, scope="address"))
        if after_ms is not None:
            return _error(401, "this link was used or is too old; `parley console --link` makes a new one")
        return reply

    async def logout(self, request: Request) -> Response:
        """End the session."""
        if not origin_allowed(request, self._settings):
            return _error(403, "this Origin is not allowed")
        reply = _json({})
        await self._sessions.sign_out(request, reply)
        return reply

    async def status(self, request: Request) -> Response:
        """The data that the page shows, for scripts too."""
        return await self._shown(request, lambda: read_status(self._settings, self._redis, self._db))

    async def noisy(self, request: Request) -> Response:
        """Tenants who take more of a pool than their share while others wait."""
        return await self._shown(request, lambda: read_noisy(self._db))

    async def refusals(self, request: Request) -> Response:
        """Refusals of the last hour, the last minute first; of one tenant by its id with `?tenant=`."""

        async def read() -> RefusalPage:
            since_ms, tenant = now_ms() - HOUR_MS, _named("tenant", request.query_params.get("tenant"))
            until_ms = since_ms + 2 * HOUR_MS
            sought = RefusalSearch(since_ms=since_ms, until_ms=until_ms, tenant=tenant, limit=REFUSALS_MAX)
            return await find_refusals(self._db, sought)

        return await self._shown(request, read)

    async def explained(self, request: Request) -> Response:
        """All that is known of one request, as `parley requests explain` prints; `?tenant=` names its
        tenant."""

        async def read() -> Explained:
            id = checked_name("id", request.path_params["id"])
            tenant = _named("tenant", request.query_params.get("tenant"))
            return await explain_request(self._db, self._redis, self._settings, id, tenant)

        return await self._shown(request, read)

    async def reconciliation(self, request: Request) -> Response:
        """The books that must agree, side by side, as of at most COMPARED_SECONDS ago."""
        return await self._shown(request, self._reconciliation)

    async def books(self, request: Request) -> Response:
        """The checks in brief, and each disagreement in words."""
        return await self._shown(request, self._books)

    async def _reconciliation(self) -> dict[str, Any]:
        checks = {check.value: meaning for check, meaning in MEANING.items()}
        return {"checks": checks, "compared": [each.facts() for each in await self._compare()]}

    async def _books(self) -> ComparisonOverview:
        return await read_comparisons(self._db, await self._compare())

    async def _compare(self) -> Sequence[Comparison]:
        async with self._comparing:
            at, compared = self._compared
            if time.monotonic() - at > COMPARED_SECONDS:
                compared = await Reconciliation(self._db, self._redis, self._settings, stores=False).run()
                self._compared = time.monotonic(), compared
        return compared

    async def _shown(self, request: Request, read: Callable[[], Awaitable[object]]) -> Response:
        """The result of `read` as JSON, for a caller who is signed in."""
        if await self._sessions.who(request) is None:
            return _error(401, "sign in with a link: `parley console --link` makes one")
        try:
            return _json(await read())
        except (RedisError, SQLAlchemyError, OSError) as error:
            problem = f"the platform's state cannot be read: {type(error).__name__}"
            return refused_reply(refusal(ErrorCode.OVERLOADED, problem))

    async def healthz(self, _request: Request) -> Response:
        """200 while the process answers."""
        return PlainTextResponse("ok\n")


def _named(what: str, given: str | None) -> str | None:
    return checked_name(what, given) if given else None


def _json(content: object) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(content), 200, headers, "application/json")


def _error(status: int, message: str) -> Response:
    return Response(json.dumps({"error": {"message": message}}), status, media_type="application/json")


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[Console]:
    async with open_stores(settings) as (db, redis):
        await require_schema(db)
        yield Console(settings, redis, db)


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop`."""
    settings.require_edge()
    host, port = settings.console_host, settings.console_endpoint_port
    if is_loopback(host) and not is_loopback(settings.host):
        log.warning("console.listens_locally", host=host, setting="PARLEY_CONSOLE_HOST")
    metrics = serving_metrics_async(settings, CONSOLE_PLACE, str)
    with contextlib.closing(listen(host, port, "PARLEY_CONSOLE_PORT")) as listener:
        async with _opened(settings) as console, metrics:
            app, gate = SecurityHeaders(console.app(), settings.tls), http.UpgradeGate(settings, host)
            await http.serve(app, listener, stop, gate, ws="none")


def _link(settings: Settings, name: str, url: str | None) -> str:
    code = asyncio.run(operator_code_on_record(settings, name))
    return f"{(url or console_url(settings)).rstrip('/')}/#o={code}"


@click.command()
@click.option("--link", is_flag=True, help="Print a one-time sign-in link for a running console, and end.")
@click.option("--for", "name", default="", help="Whom the link is for. By default you.")
@click.option(
    "--url", help="Where browsers reach the console. By default as `parley up` or the settings say."
)
def command(link: bool, name: str, url: str | None) -> None:
    """Run the operator console: workers, queue, usage, books that differ, noisy tenants (read-only).

    Listens on PARLEY_CONSOLE_HOST and PARLEY_CONSOLE_PORT. Sign in with the link that --link prints.
    """
    settings = Settings()
    if link:
        print_line(_link(settings, checked_name("--for", name) if name else "", url))
    else:
        service.run(settings, "console", serve)
