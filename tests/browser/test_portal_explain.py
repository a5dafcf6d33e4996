"""The portal explains a charge: a day by its groups, a group by its requests, one request by its lines."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from billing.api import create_tenant
from billing.booking.adjustments import Correction, correct
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project
from billing.usage import UsageOwner, encode
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE: Any = {"viewport": {"width": 1440, "height": 900}}
PHONE: Any = {"viewport": {"width": 390, "height": 844}}
DAY = int(datetime(2026, 10, 15, 9, tzinfo=UTC).timestamp() * 1000)
WEEK_MS = 7 * 86_400_000


class ChargedTenant:
    """Ids of the tenant acme: two keys, one of which cost much more than a week before; and of a request of
    another tenant."""

    tenant = reindex = ""


@pytest_asyncio.fixture(loop_scope="session")
async def acme(sqlite: Database) -> AsyncGenerator[ChargedTenant]:
    """Both tenants, in the books."""
    found = ChargedTenant()
    for name in ("other", "acme"):
        found.tenant = tenant = (await create_tenant(sqlite, name)).tenant_id
        project = (await create_project(sqlite, tenant, "lab")).id
        keys = [(await create_key(sqlite, tenant, project, name=each))[0].id for each in ("prod", "reindex")]
        found.reindex = keys[1]
        events = [
            an_event(f"{name}-{key}-{at}-{number}", tenant, owner=UsageOwner(project, keys[key]), **facts)
            for key, at, output in ((0, DAY - WEEK_MS, 400_000), (0, DAY, 500_000), (1, DAY, 900_000))
            for number in range(6)
            for facts in [{"accepted_ms": at, "ended_ms": at + number, "output_text": output + number}]
        ]
        await post(sqlite, "default", [encode(each) for each in events])
    await correct(sqlite, found.tenant, Correction(f"acme-1-{DAY}-0", {Meter.OUTPUT: 800_000}, "lost"))
    yield found


async def opened(
    open_page: OpenPage,
    portal: str,
    settings: Settings,
    db: Database,
    acme: ChargedTenant,
    path: str,
    role: Role = Role.BILLING,
    **options: Any,
) -> WatchedPage:
    """A page as a member of acme sees it."""
    code = await staff_code(settings, db, f"Fin {role}", role, acme.tenant)
    watched = await open_page(f"{portal}/healthz", own=True, **options)
    await watched.page.goto(f"{portal}/portal/{path}#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


def rows(page: Page, label: str) -> Any:
    """The rows of a table below its head."""
    return page.get_by_role("table", name=label).get_by_role("row").filter(has=page.get_by_role("cell"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_from_a_day_down_to_the_lines_of_one_request(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: ChargedTenant, scheme: str
):
    """Each step is an address; the sums go on from one to the next; axe finds nothing."""
    path = "explain?day=2026-10-15"
    watched = await opened(open_page, portal, settings, sqlite, acme, path, color_scheme=scheme, **WIDE)
    page = watched.page
    lead = page.get_by_text(
        "The day cost 3.32, 2.36 more than the Thursday before. Key reindex alone added 2.12."
    )
    await expect(lead).to_be_visible()
    await expect(rows(page, "By key").first).to_contain_text("reindex")
    await expect(rows(page, "By key").last).to_contain_text("+2.36")
    await shot(page, f"portal-explain-{scheme}")
    assert await watched.axe() == []
    await page.get_by_role("link", name="reindex", exact=True).click()
    await expect(page).to_have_url(f"{portal}/portal/explain?day=2026-10-15&by=key&of={acme.reindex}")
    listed = rows(page, "Request by request")
    await expect(page.get_by_role("heading", name="reindex, request by request")).to_be_visible()
    await expect(listed).to_have_count(6 + 2)
    await expect(listed.last).to_contain_text("2.120011400")
    await listed.last.scroll_into_view_if_needed()
    await page.get_by_title(f"acme-1-{DAY}-0").click()
    await expect(page.get_by_role("group", name="Amount")).to_have_text("0.320000900")
    lines = rows(page, "How the amount is made")
    await expect(lines.filter(has_text="lost")).to_contain_text("\u22120.040000000")
    await expect(lines.last).to_contain_text("0.320000900")
    await expect(page.get_by_text("A hold is not a charge")).to_be_visible()
    await shot(page, f"portal-request-{scheme}")
    assert await watched.axe() == []
    await page.get_by_role("link", name="2026-10-15").click()
    await expect(lead).to_be_visible()
    assert (watched.errors, watched.strangers) == ([], [])


async def test_what_is_no_day_or_no_request_is_said_and_a_way_on(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: ChargedTenant
):
    """Another tenant's request is unknown; without a day it is yesterday, on a phone too."""
    watched = await opened(open_page, portal, settings, sqlite, acme, "explain?day=2026-13-01", **PHONE)
    page = watched.page
    await expect(page.get_by_role("alert")).to_contain_text("write it like 2026-10-01")
    await page.get_by_role("link", name="To yesterday").click()
    await expect(page.get_by_text("Nothing was spent on this day")).to_be_visible()
    await page.get_by_label("Or one request, by its id").fill(f" other-1-{DAY}-0 ")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Nobody knows this request")
    await page.goto(f"{portal}/portal/explain?day=2026-10-15&by=model&of=smollm2")
    await expect(rows(page, "Request by request")).to_have_count(8 + 3)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await shot(page, "portal-explain-390")
    assert await watched.axe() == []


async def test_a_developer_sees_a_request_and_not_what_a_day_cost(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: ChargedTenant
):
    """The page says so, and takes an id."""
    watched = await opened(open_page, portal, settings, sqlite, acme, "explain", Role.DEVELOPER, **WIDE)
    page = watched.page
    await expect(page.get_by_text("Your role sees what a request was charged")).to_be_visible()
    await page.get_by_label("Or one request, by its id").fill(f"acme-0-{DAY}-2")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_role("group", name="Amount")).to_have_text("0.200001700")
    assert (watched.errors, watched.strangers) == ([], [])
