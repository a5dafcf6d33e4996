"""The portal's chargeback on real stores: what is shown is the report, and each view has its address."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, ViewportSize, expect

from billing.operations import chargeback
from billing.operations.chargeback import AskChargeback, ChargebackReport
from billing.seeding.fill import seed_settings
from billing.seeding.shapes import SeedShape
from billing.seeding.usage_posting import post_seeded_usage
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.redis import Redis
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE = ViewportSize(width=1440, height=900)


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(settings: Settings, sqlite: Database) -> AsyncGenerator[str]:
    """A tenant of the books with a month of usage."""
    shape = SeedShape(3, 30, now_ms())
    seeded = await seed_settings(sqlite, shape, lambda _: None)
    await post_seeded_usage(sqlite, shape, seeded.sources, settings.pool)
    yield seeded.sources[0].tenant


@pytest.fixture
def stores(settings: Settings, sqlite: Database, redis: Redis) -> Stores:
    """Those of the portal."""
    return Stores(settings, sqlite, lambda: redis)


async def opened(
    open_page: OpenPage, portal: str, code: str, role: Role = Role.ADMIN
) -> tuple[WatchedPage, Page]:
    """The page as a member sees it who came by a link."""
    watched = await open_page(f"{portal}/#p={code}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("button", name="Account of").first).to_be_visible()
    await page.get_by_role("link", name="Chargeback").first.click()
    await expect(page.get_by_role("heading", name="Chargeback", level=1)).to_be_visible()
    return watched, page


async def reported(stores: Stores, tenant: str, **asked: Any) -> ChargebackReport:
    """The same report, by its operation."""
    return await answer_of(chargeback.report, stores, OWNER, AskChargeback(tenant=tenant, **asked))


def cents(nano: int) -> str:
    """Half to even, once."""
    size, sign = abs(nano), "−" if nano < 0 else ""
    whole, rest = divmod(size, 10_000_000)
    whole += rest > 5_000_000 or (rest == 5_000_000 and whole % 2 == 1)
    return f"{sign if whole else ''}{whole // 100:,}.{whole % 100:02}"


async def test_the_report_is_the_books_by_the_facts_that_are_chosen(
    open_page: OpenPage, tenant: str, portal: str, settings: Settings, sqlite: Database, stores: Stores
):
    """Rows and columns stand in the address; what equals the other side changes places with it; a day before
    all usage shows that nothing was there."""
    code = await staff_code(settings, sqlite, "Mia", Role.BILLING, tenant)
    watched, page = await opened(open_page, portal, code)
    await page.get_by_label("Rows").select_option("Project")
    await page.get_by_label("Columns").select_option("Key")
    told = await reported(stores, tenant, rows="project", columns="key")
    table = page.get_by_role("table", name="Project by key")
    await expect(table.locator("tfoot td").last).to_have_text(cents(told.total.value))
    await expect(table.locator("tbody tr th").first).to_have_text(told.lines[0].head.name)
    assert "rows=project" in page.url
    await page.get_by_label("Rows").select_option("Key")
    await expect(page.get_by_role("table", name="Key by project")).to_be_visible()
    await shot(page, "portal-chargeback")
    await page.goto(f"{page.url}&as_of=2020-01-01")
    await expect(page.get_by_text("Nothing was used or charged in")).to_be_visible()
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_month_is_saved_as_a_file_whose_sum_is_told_before(
    open_page: OpenPage, tenant: str, portal: str, settings: Settings, sqlite: Database, stores: Stores
):
    """The dialog says how many rows there are and what they add up to; the file has them."""
    code = await staff_code(settings, sqlite, "Mia", Role.BILLING, tenant)
    watched, page = await opened(open_page, portal, code)
    await page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Sum of the rows")).to_be_visible()
    await shot(page, "portal-chargeback-export")
    assert await watched.axe() == []
    await dialog.get_by_label("Every charge, a plain table").check()
    async with page.expect_download() as saved:
        await dialog.get_by_role("link", name="Export").click()
    file = await saved.value
    text = await asyncio.to_thread(Path(await file.path()).read_text, "utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    total = sum(Decimal(row["usd"]) for row in rows)
    assert total * 10**9 == (await reported(stores, tenant)).total.value
    assert file.suggested_filename.endswith("-table.csv")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_report_is_sent_by_mail_and_no_more(
    open_page: OpenPage, tenant: str, portal: str, settings: Settings, sqlite: Database, stores: Stores
):
    """To whoever may see money; a tag is declared beside it, with its reason, and can then be chosen."""
    code = await staff_code(settings, sqlite, "Mia", Role.ADMIN, tenant)
    watched, page = await opened(open_page, portal, code)
    await page.get_by_role("button", name="Send by mail").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("When").select_option("Mondays, 07:00")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Send by mail").click()
    sent = page.get_by_role("table", name="Sent by mail")
    await expect(sent.get_by_role("row", name="Cost center × model")).to_contain_text("Mondays, 07:00")
    await sent.get_by_role("button", name="Stop sending").click()
    await dialog.get_by_role("button", name="Stop sending").click()
    await expect(page.get_by_text("No report is sent by mail.")).to_be_visible()
    await page.get_by_role("button", name="Declare a tag…").click()
    await dialog.get_by_label("Key").fill("a b")
    await dialog.get_by_label("Reason").fill("split by team")
    await expect(dialog.get_by_text("1 to 64 of")).to_be_visible()
    await dialog.get_by_label("Key").fill("team")
    await dialog.get_by_role("button", name="Declare").click()
    await expect(page.get_by_role("table", name="Tags").get_by_role("row", name="team")).to_be_visible()
    await page.get_by_label("Rows").select_option("Tag team")
    await expect(page.get_by_role("table", name="Tag team by model")).to_contain_text("Not tagged")
    ignored = [each for each in watched.errors if "400" not in each]
    assert (ignored, watched.strangers) == ([], [])
