"""The API of both sides over one installation, and people who are signed in."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE, ApiSide
from admin.api.changes import ChangesRoute
from admin.console import Console
from billing.api import OperationActor
from billing.tables.tenants import PLATFORM
from core.configuration.settings import Settings
from core.operations import STAFF, Role
from core.sql.database import Database
from tests.support.redis import Redis
from tests.support.staff import open_link, staff_code

ORIGIN = "http://console.localhost"


@dataclass
class ApiSite:
    """An installation whose consoles answer in this process."""

    settings: Settings
    database: Database
    redis: Redis
    stack: AsyncExitStack

    async def browser(self, side: ApiSide = OPERATORS_SIDE) -> httpx.AsyncClient:
        """A browser that nobody has signed in with."""
        app = Console(self.settings, self.redis, self.database, side).app()
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ORIGIN)
        return await self.stack.enter_async_context(client)

    async def signed_in(
        self, role: Role = Role.OWNER, tenant: str = PLATFORM, name: str = "Ann"
    ) -> httpx.AsyncClient:
        """A browser of somebody with this role, which sends what pages send on writes."""
        browser = await self.browser(OPERATORS_SIDE if role in STAFF else TENANTS_SIDE)
        code = await staff_code(self.settings, self.database, name, role, tenant)
        reply = await open_link(browser, code)
        assert reply.status_code == 200, reply.text
        return browser


class RoundRobin(httpx.AsyncBaseTransport):
    """A balancer: each call goes to the next of some applications."""

    def __init__(self, apps: Sequence[ASGIApp]) -> None:
        self._next = cycle([httpx.ASGITransport(app=app) for app in apps])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        return await next(self._next).handle_async_request(request)


async def created(browser: httpx.AsyncClient, name: str = "acme") -> str:
    """Create a tenant, and return its id."""
    reply = await browser.post("/api/tenants", json={"name": name, "reason": "ticket 7"})
    assert reply.status_code == 200, reply.text
    return reply.json()["tenant"]


async def first_events(
    route: ChangesRoute, actor: OperationActor, after: str, number: int
) -> list[dict[str, Any]]:
    """The first events behind an id, each with its id."""
    events: list[dict[str, Any]] = []
    async with aclosing(route.events(actor, after)) as stream:
        async for piece in stream:
            for id, data in re.findall(r"id: (\S+)\nevent: change\ndata: (.*)\n\n", piece.decode()):
                events.append({"id": id, **json.loads(data)})
            if len(events) >= number:
                return events[:number]
    pytest.fail("the stream ended")


@pytest.fixture
async def site(settings: Settings, database: Database, redis: Redis) -> AsyncIterator[ApiSite]:
    """On SQLite and on Postgres."""
    async with AsyncExitStack() as stack:
        yield ApiSite(settings, database, redis, stack)
