"""Where a tenant's month goes, why, and what its cache saved: sections of the Spend page on real stores."""

import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, ViewportSize, expect

from billing.booking.adjustments import Correction, correct
from billing.posting.biller import post
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import create_tenant, find_project, set_tenant
from billing.usage import UsageOwner, encode
from core.clock import clock_from
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.spending import Moment
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NOW = Moment(datetime(2025, 11, 18, 13, 32, tzinfo=UTC))
SINCE, DAYS, KEYS = datetime(2025, 10, 1, 12, tzinfo=UTC), 49, 8
SPREE = datetime(2025, 11, 12, 12, tzinfo=UTC)
MINUS = "\u2212"


@pytest_asyncio.fixture(loop_scope="session")
async def acme(sqlite: Database) -> AsyncGenerator[Tenant]:
    """A tenant with a request of each of eight keys a day; on one day one key spends more, and is paid back a
    part of it. A user is named by none of the eighth's."""
    with clock_from(NOW):
        tenant = await create_tenant(sqlite, "acme")
        tenant = await set_tenant(sqlite, tenant.tenant_id, time_zone="Asia/Kathmandu")
        project = await find_project(sqlite, tenant.tenant_id, "default")
        assert project is not None
        events = []
        for day in range(DAYS):
            at = SINCE + timedelta(days=day)
            for key in range(KEYS):
                ended = int(at.timestamp() * 1000) + key
                spree = at == SPREE and key == 3
                events.append(
                    an_event(
                        f"r{day:02}{key}",
                        tenant.tenant_id,
                        model="gpt" if key % 2 else "llama",
                        owner=UsageOwner(project.id, f"key-{key}", f"user-{key}" if key < 7 else ""),
                        accepted_ms=ended,
                        ended_ms=ended,
                        input_uncached=10_000_000 * (KEYS - key) * (20 if spree else 1),
                        input_cached=1_000_000,
                        output_text=33_333,
                    )
                )
        await post(sqlite, "default", [encode(event) for event in events])
        await correct(sqlite, tenant.tenant_id, Correction("r431", None, "slow"))
        yield tenant


async def opened(
    open_page: OpenPage, portal: str, settings: Settings, db: Database, tenant: Tenant
) -> WatchedPage:
    """The page, as finance sees it."""
    code = await staff_code(settings, db, "Mia", Role.BILLING, tenant.tenant_id)
    watched = await open_page(f"{portal}/#p={code}", own=True, viewport=ViewportSize(width=1440, height=900))
    await expect(watched.page.get_by_role("heading", name="Where does it go?")).to_be_visible()
    return watched


def section(page: Page, name: str | re.Pattern[str]) -> Locator:
    """A part of the page."""
    return page.get_by_role("region", name=name)


def cents(text: str) -> int:
    """An amount as it is read."""
    return int(text.replace(MINUS, "-").replace("+", "").replace(",", "").replace(".", "") or 0)


async def columns(table: Locator) -> tuple[list[list[int]], list[int]]:
    """The amounts of a table's rows, and those of its last one."""
    rows = [
        [cents(text) for text in await row.locator("td.number").all_inner_texts()]
        for row in await table.locator("tbody tr:has(td.number)").all()
    ]
    return rows, [cents(text) for text in await table.locator("tfoot td.number").all_inner_texts()]


async def test_the_legend_adds_up_and_the_address_keeps_what_is_looked_at(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """Five keys, the others as one row, each day by key and by pointer; the same as a table; back works."""
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    where = section(page, "Where does it go?")
    await expect(where).to_contain_text("Today is still open and drawn paler.")
    await where.get_by_label("Told apart by").select_option("By key")
    await expect(where.get_by_role("row", name="Other 3 keys")).to_be_visible()
    await expect(page).to_have_url(re.compile("by=key"))
    rows, total = await columns(where.get_by_role("table"))
    assert [sum(each) for each in zip(*rows, strict=True)] == total
    await expect(where.get_by_text("2025-11-17", exact=True)).to_be_visible()
    await where.get_by_role("button", name="The day before").click()
    await expect(page).to_have_url(re.compile("day=2025-11-16"))
    bars = where.get_by_role("img", name="by day")
    box = await bars.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 150)
    await expect(where.get_by_text("2025-11-18", exact=True)).to_be_visible()
    await expect(where.get_by_role("columnheader", name="Today")).to_be_visible()
    await shot(page, "portal-where")
    assert await watched.axe() == []
    await where.get_by_text("Tokens", exact=True).click()
    await expect(page).to_have_url(re.compile("measure=tokens"))
    await where.get_by_text("Cost", exact=True).click()
    await where.get_by_text("Table", exact=True).click()
    await expect(where.get_by_role("row", name="2025-11-12")).to_be_visible()
    await expect(where.get_by_role("rowheader", name="2025-11-")).to_have_count(18)
    shown = await where.locator("tfoot td.number").all_inner_texts()
    assert cents(shown[-1]) == total[-1]
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_jumps_have_a_letter_and_a_reason(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """The key that spent more, and the refund on its day, in the tenant's own zone."""
    watched = await opened(open_page, portal, settings, sqlite, acme)
    marks = section(watched.page, "Where does it go?").get_by_role("list", name="What explains jumps")
    await expect(marks.get_by_role("listitem")).to_have_count(2)
    jump, refund = await marks.get_by_role("listitem").all_inner_texts()
    assert re.sub(r"\s+", " ", jump) == "A 2025-11-12 Key key-3 cost 100.04 after 5.04 the Wednesday before."
    assert re.sub(r"\s+", " ", refund) == f"B 2025-11-13 Refund {MINUS}7.04 (gpt)."


async def test_the_steps_lead_from_one_month_to_the_other(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """In the cents that are shown: with the same days, and with all of the month before."""
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    why = section(page, "Why is it more than October?")
    await expect(why).to_contain_text("1 to 17 November cost")
    await expect(why).to_contain_text("Today is left out, it is not over.")
    await expect(why.get_by_role("row", name="Corrections")).to_contain_text("Refund of 2025-11-13")
    for against in ("days", "month"):
        why = section(page, re.compile("^Why is it"))
        await why.get_by_label("Compared").select_option(against)
        begin = {"days": "1 to 17 October", "month": "October"}[against]
        await expect(why.get_by_role("rowheader", name=begin, exact=True)).to_be_visible()
        rows, (after,) = await columns(why.get_by_role("table"))
        assert sum(row[0] for row in rows) == after
    await expect(page).to_have_url(re.compile("against=month"))
    await expect(page.get_by_role("heading", name="Why is it less than October?")).to_be_visible()
    assert await watched.axe() == []


async def test_the_cache_and_a_phone(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """What was saved adds up; nothing scrolls sideways at 390 px, and each part keeps its reason."""
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    cache = section(page, "What did the cache save?")
    await expect(cache.locator("tfoot")).to_be_visible()
    saved = [cents(text) for text in await cache.locator("tbody td.number:last-child").all_inner_texts()]
    assert sum(saved) == cents(await cache.locator("tfoot td.number").last.inner_text()) > 0
    await page.set_viewport_size(ViewportSize(width=390, height=844))
    await expect(cache.get_by_role("columnheader", name="Input tokens")).to_be_hidden()
    why = section(page, re.compile("^Why is it"))
    await expect(why.get_by_role("row", name="Refund of 2025-11-13", exact=True)).to_be_visible()
    for show in ("Table", "Chart"):
        await section(page, "Where does it go?").get_by_text(show, exact=True).click()
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wide)
        assert await watched.axe() == []
    await shot(page, "portal-where-phone")
    assert (watched.errors, watched.strangers) == ([], [])
