"""The portal's Spend page: who was refused and by whose limit, and what own pools cost while idle."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from billing.dedicated_pools.commitments import GpuTerms, commit_gpus
from billing.dedicated_pools.posting import post_hour
from billing.dedicated_pools.store import store
from billing.periods import HOUR_MS
from billing.posting.biller import post
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project
from billing.usage import encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import DOLLAR, a_tenant, dedicate
from tests.billing.events import an_event
from tests.billing.operations.spent import ready, refused
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def acme(sqlite: Database) -> AsyncGenerator[str]:
    """A tenant with a request, a key that its budget refused, and a pool that was used for half an hour."""
    hour, now = now_ms() // HOUR_MS * HOUR_MS, now_ms()
    tenant = (await a_tenant(sqlite, "acme")).tenant_id
    project = (await create_project(sqlite, tenant, "lab")).id
    key = (await create_key(sqlite, tenant, project, name="lab evals"))[0].id
    await dedicate(sqlite, "acme-1", tenant, hour)
    await commit_gpus(
        sqlite, tenant, GpuTerms("h200", 1, hour, hour + 24 * HOUR_MS, 2 * DOLLAR, pool="acme-1")
    )
    await store(sqlite, [ready(hour, "acme-1", "w1", 1_800)])
    await post_hour(sqlite, hour, now)
    await post(sqlite, "default", [encode(an_event("r", tenant, accepted_ms=now - 1_000, ended_ms=now))])
    for code, why, whose, number in (("budget_exceeded", "key month", key, 214), ("overloaded", "", "", 9)):
        await refused(sqlite, tenant, code, why, whose, number)
    yield tenant


async def opened(
    open_page: OpenPage, portal: str, settings: Settings, db: Database, tenant: str, role: Role, width: int
) -> WatchedPage:
    """The page as this role sees it."""
    code = await staff_code(settings, db, "Mia", role, tenant)
    watched = await open_page(f"{portal}/healthz", own=True, viewport={"width": width, "height": 900})
    await watched.page.goto(f"{portal}/portal/spend#p={code}")
    return watched


@pytest.mark.parametrize("width", [1440, 390])
async def test_limits_are_named_and_lead_to_what_they_refused(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: str, width: int
):
    """With whose limit it was; an admin goes from there to the minutes."""
    watched = await opened(open_page, portal, settings, sqlite, acme, Role.ADMIN, width)
    page = watched.page
    section = page.get_by_role("region", name="Who was refused, and by whose limit?")
    await expect(section).to_contain_text("223 of 224 requests since 1")
    by_key = section.get_by_role("row", name="Budget of key lab evals")
    for words in ("402", "yours", "214"):
        await expect(by_key).to_contain_text(words)
    await expect(section.get_by_role("row", name="No room in a pool in time")).to_contain_text("Parley’s")
    await shot(page, f"portal-spend-refused-{width}")
    assert await watched.axe() == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await by_key.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
    await expect(page.get_by_label("Code")).to_have_value("budget_exceeded")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_own_pools_say_what_they_cost_while_idle(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: str
):
    """Half of the hour was idle, and half of its cost; as bars and as a table. Finance sees it, without links
    to requests, which it may not see."""
    watched = await opened(open_page, portal, settings, sqlite, acme, Role.BILLING, 1440)
    section = watched.page.get_by_role("region", name="What does our own pool acme-1 cost while idle?")
    await expect(section).to_contain_text("1 GPU reserved until")
    await expect(section).to_contain_text("at 2.00 a GPU-hour. 50 % of their time nothing ran.")
    sums = section.get_by_role("table", name="Cost of acme-1")
    await expect(sums.get_by_role("row", name="Idle")).to_contain_text("0.5")
    await expect(sums.get_by_role("row", name="Idle")).to_contain_text("1.00")
    await expect(sums.get_by_role("row", name="Reserved")).to_contain_text("2.00")
    await section.get_by_role("button", name="Show as table").click()
    await expect(section.get_by_role("group", name="Days of acme-1")).to_contain_text("open")
    refused = watched.page.get_by_role("region", name="Who was refused, and by whose limit?")
    await expect(refused.get_by_text("Budget of key lab evals")).to_be_visible()
    await expect(refused.get_by_role("link")).to_have_count(0)
    assert await watched.axe() == []
    assert watched.errors == []
