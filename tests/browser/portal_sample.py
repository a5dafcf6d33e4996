"""A portal whose tenant has projects and keys, one of which lies idle, for tests of its pages."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest_asyncio
from playwright.async_api import ViewportSize, expect

from billing.operations import keys, projects, tenants
from billing.operations.keys import CreateKey, ListKeys
from billing.operations.projects import CreateProject
from billing.operations.tenants import CreateTenant
from billing.posting.biller import post
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.configuration.settings import Settings
from core.operations import Role
from core.redis.client import connect
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.staff import staff_code

WIDE = ViewportSize(width=1440, height=900)
PHONE = ViewportSize(width=390, height=844)
ARABIC = "مفتاح الدعم 🔑"
DAY_MS = 86_400_000
WHY = Terms(reason="a test's")


@dataclass(frozen=True)
class PortalOfAcme:
    """A portal's address, its stores, and its tenant's id."""

    url: str
    stores: Stores
    tenant: str

    async def use(self, key: str, *ago_ms: int, output: int = 7) -> None:
        """Post requests of a key that ended so long ago, of so many tokens."""
        now = self.stores.now_ms()
        listed = (await answer_of(keys.list_keys, self.stores, OWNER, ListKeys(tenant="acme"))).items
        row = next(each for each in listed if key in (each.key, each.name))
        owner = UsageOwner(row.project, row.key, "")
        times = [now - ago for ago in ago_ms]
        events = [
            an_event(
                f"{row.key}{at}",
                self.tenant,
                owner=owner,
                accepted_ms=at - 9,
                first_token_ms=at - 5,
                ended_ms=at,
                output_text=output,
            )
            for at in times
        ]
        await post(self.stores.db, "default", [encode(each) for each in events])

    async def opened(
        self, open_page: OpenPage, page: str, role: Role = Role.ADMIN, **options: object
    ) -> WatchedPage:
        """A page, for a new member who is called Mia."""
        code = await staff_code(self.stores.settings, self.stores.db, "Mia", role, self.tenant)
        watched = await open_page(f"{self.url}/portal/{page}#p={code}", own=True, **options)
        await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
        return watched


@pytest_asyncio.fixture(loop_scope="session")
async def acme(portal: str, settings: Settings, sqlite: Database) -> AsyncGenerator[PortalOfAcme]:
    """A tenant with a project of its own and three keys, one of which lies idle."""
    redis = connect(settings)
    stores = Stores(settings, sqlite, lambda: redis)
    made = await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))
    await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name="lab 🌙"), WHY)
    for name in ("support-bot prod", ARABIC, "idle"):
        await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", name=name), WHY)
    acme = PortalOfAcme(portal, stores, made.tenant)
    await acme.use("support-bot prod", 60_000, 120_000)
    await acme.use("idle", 49 * DAY_MS)
    yield acme
    await redis.aclose()
