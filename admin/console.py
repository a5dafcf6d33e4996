"""`parley console`: the API for operators or for tenants (admin/api), and the operators' page: workers,
queue, running requests, usage by tenant, books that do not agree, noisy tenants, refusals, one request
explained. For tenants' services it serves the usage API (admin/usage).

People sign in by a one-time link (`parley up` prints one, `parley people link NAME` makes one) or a password.
The page is static; its script asks these routes and builds the DOM, under the same policy as the chat page.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
import msgspec
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from admin.api.callers import OPERATORS_SIDE, SIDES, ApiSide
from admin.api.old_rows import clear_old_rows
from admin.api.problems import problem, reply_of
from admin.api.server import ApiServer
from admin.findings import ComparisonOverview, read_comparisons, read_noisy
from admin.status import read_status
from admin.usage.routes import UsageRoutes
from admin.web_pages import console_pages, portal_pages
from billing.api import (
    PLATFORM,
    Comparison,
    Reconciliation,
    RefusalPage,
    RefusalSearch,
    Stores,
    find_refusals,
)
from core.access.processes import PORTAL
from core.actor import acting_as
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.names import checked_name
from core.network.hosts import is_loopback
from core.observability.telemetry import logger
from core.operations import flat_facts
from core.redis.client import RedisClient
from core.runtime import service
from core.runtime.spared_collections import spare_collections
from core.sql.database import Database, require_schema
from core.sql.stores import open_stores
from core.sql.written_rows import require_rows
from core.tasks import cancel_tasks
from core.web import http
from core.web.http import listen
from core.web.metrics import CONSOLE_PLACE, PORTAL_PLACE, serving_metrics_async
from engine.api import explain_request
from server.api import (
    CallRates,
    LimitedCalls,
    SecurityHeaders,
    guarded,
)

COMPARED_SECONDS = 10.0
HOUR_MS = 3_600_000
REFUSALS_MAX = 50

log = logger(__name__)


Shown = TypeVar("Shown")


class TenantsRead(NamedTuple):
    """An audit row of a read: its action, whose chain it is of, and what was read."""

    action: str
    chain: str
    target: str


class Console:
    """One side's routes over one database and one Redis."""

    def __init__(
        self, settings: Settings, redis: RedisClient, db: Database, side: ApiSide = OPERATORS_SIDE
    ) -> None:
        self._settings = settings
        self._redis = redis
        self.db = db
        self._side = side
        self.rates = CallRates(settings)
        self._stores = Stores(settings, db, lambda: redis)
        self.api = ApiServer(self._stores, side, bind_of(settings, side)[0], self.rates)
        self._usage = UsageRoutes(settings, db, self.rates)
        self._comparing = asyncio.Lock()
        self._compared: tuple[float, Sequence[Comparison]] = (-math.inf, [])

    def app(self) -> ASGIApp:
        """The ASGI application, without the security headers."""
        return LimitedCalls(guarded(self.routes(), reply_of), self.rates, reply_of)

    def routes(self) -> list[BaseRoute]:
        """All routes of this side."""
        shared = [*self._usage.routes(), Route("/healthz", self.healthz, methods=["GET"]), *self.api.routes()]
        if not self._side.staff:
            return [*portal_pages(), *shared]
        return [
            *console_pages(),
            Route("/api/status", self.status, methods=["GET"]),
            Route("/api/books", self.books, methods=["GET"]),
            Route("/api/noisy", self.noisy, methods=["GET"]),
            Route("/api/refusals", self.refusals, methods=["GET"]),
            Route("/api/explained/{id}", self.explained, methods=["GET"]),
            *shared,
        ]

    async def status(self, request: Request) -> Response:
        """The data that the page shows, for scripts too."""
        listed = TenantsRead("request.list", PLATFORM, self._settings.pool)
        return await self._shown(
            request, lambda: read_status(self._settings, self._redis, self.db), lambda _: listed
        )

    async def noisy(self, request: Request) -> Response:
        """Tenants who take more of a pool than their share while others wait."""
        return await self._shown(request, lambda: read_noisy(self.db))

    async def refusals(self, request: Request) -> Response:
        """Refusals of the last hour, the last minute first; of one tenant by its id with `?tenant=`."""

        async def read() -> RefusalPage:
            since_ms, tenant = now_ms() - HOUR_MS, _named("tenant", request.query_params.get("tenant"))
            until_ms = since_ms + 2 * HOUR_MS
            sought = RefusalSearch(since_ms=since_ms, until_ms=until_ms, tenant=tenant, limit=REFUSALS_MAX)
            return await find_refusals(self.db, sought)

        tenant = request.query_params.get("tenant") or PLATFORM
        return await self._shown(request, read, lambda _: TenantsRead("request.find", PLATFORM, tenant))

    async def explained(self, request: Request) -> Response:
        """All that is known of one request, as `parley requests explain` prints; `?tenant=` names its
        tenant."""

        async def read() -> dict[str, Any]:
            id = checked_name("id", request.path_params["id"])
            tenant = _named("tenant", request.query_params.get("tenant"))
            return flat_facts(await explain_request(self.db, self._redis, self._settings, id, tenant))

        return await self._shown(
            request, read, lambda found: TenantsRead("request.explain", found["tenant"], found["id"])
        )

    async def books(self, request: Request) -> Response:
        """The checks in brief, and each disagreement in words."""
        return await self._shown(request, self._books)

    async def _books(self) -> ComparisonOverview:
        return await read_comparisons(self.db, await self._compare())

    async def _compare(self) -> Sequence[Comparison]:
        async with self._comparing:
            at, compared = self._compared
            if time.monotonic() - at > COMPARED_SECONDS:
                compared = await Reconciliation(self.db, self._redis, self._settings, stores=False).run()
                self._compared = time.monotonic(), compared
        return compared

    async def _shown(
        self,
        request: Request,
        read: Callable[[], Awaitable[Shown]],
        of: Callable[[Shown], TenantsRead] | None = None,
    ) -> Response:
        """The result of `read` as JSON, for staff; `of` says what is recorded of that, before it is shown."""
        try:
            who, _ = await self.api.callers.whoever(request)
            found = await read()
            if of is not None:
                with acting_as(who.author):
                    await self._stores.record_read(who, request.url.path, *of(found))
            return _json(found)
        except Refused as refused:
            return problem(refused.refusal)
        except (RedisError, SQLAlchemyError, OSError) as error:
            told = f"the platform's state cannot be read: {type(error).__name__}"
            return problem(Refusal("overloaded", told, retry=True, after_ms=2000))

    async def healthz(self, _request: Request) -> Response:
        """200 while the process answers."""
        return PlainTextResponse("ok\n")


def _named(what: str, given: str | None) -> str | None:
    return checked_name(what, given) if given else None


def _json(content: object) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(content), 200, headers, "application/json")


@contextlib.asynccontextmanager
async def _opened(settings: Settings, side: ApiSide) -> AsyncGenerator[Console]:
    async with open_stores(settings) as (db, redis):
        await require_schema(db)
        if not side.staff:
            await require_rows(db, PORTAL)
        yield Console(settings, redis, db, side)


def bind_of(settings: Settings, side: ApiSide) -> tuple[str, int]:
    """Address and port on which a side is served. Pure."""
    if side.staff:
        return settings.console_host, settings.console_endpoint_port
    return settings.portal_host, settings.portal_endpoint_port


async def serve(settings: Settings, stop: asyncio.Event, side: ApiSide = OPERATORS_SIDE) -> None:
    """Serve one side until `stop`."""
    settings.require_edge()
    host, port = bind_of(settings, side)
    if is_loopback(host) and not is_loopback(settings.host):
        log.warning("console.listens_locally", host=host, setting=f"PARLEY_{side.setting}_HOST")
    metrics = serving_metrics_async(settings, CONSOLE_PLACE if side.staff else PORTAL_PLACE, str)
    with contextlib.closing(listen(host, port, f"PARLEY_{side.setting}_PORT")) as listener:
        async with _opened(settings, side) as console, metrics, asyncio.TaskGroup() as group:
            beside = [_end_streams(console, stop), clear_old_rows(console.db, side.staff)]
            tasks = [group.create_task(each) for each in beside]
            app, gate = SecurityHeaders(console.app(), settings.tls), http.UpgradeGate(settings, host)
            await http.serve(app, listener, stop, gate, ws="none")
            await console.api.runs.drain()
            await cancel_tasks(tasks)


async def _end_streams(console: Console, stop: asyncio.Event) -> None:
    await stop.wait()
    console.api.end()


@click.command()
@click.option(
    "--serve",
    "side",
    type=click.Choice(list(SIDES)),
    default=OPERATORS_SIDE.name,
    show_default=True,
    help="Whom it is for: staff, or members of tenants.",
)
def command(side: str) -> None:
    """Run a console: the API and the pages for operators, or the API for tenants' members.

    The operators' listens on PARLEY_CONSOLE_HOST and PARLEY_CONSOLE_PORT, the tenants' on PARLEY_PORTAL_HOST
    and PARLEY_PORTAL_PORT. Sign in with a link that `parley people link NAME` prints.
    """
    settings, served = Settings(), SIDES[side]
    spare_collections()
    service.run(settings, f"console-{side}", lambda settings, stop: serve(settings, stop, served))
