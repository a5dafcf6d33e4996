"""The API of both sides over one installation, and people who are signed in."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE, ApiSide
from admin.console import Console
from billing.tables.tenants import PLATFORM
from core.configuration.settings import Settings
from core.operations import STAFF, Role
from core.sql.database import Database
from tests.support.redis import Redis
from tests.support.staff import open_link, staff_code

ORIGIN = "http://console.test"


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


@pytest.fixture
async def site(settings: Settings, database: Database, redis: Redis) -> AsyncIterator[ApiSite]:
    """On SQLite and on Postgres."""
    async with AsyncExitStack() as stack:
        yield ApiSite(settings, database, redis, stack)
