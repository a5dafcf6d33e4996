"""The portal's Spend page on real stores: whether money lasts, in a sentence, in numbers and as a path."""

import re
from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from billing.enforcement.limit_settings import write_budget
from billing.ledger.grant_spending import GrantKind
from billing.limits import Mode, Scope
from billing.periods import HOUR_MS, Period
from billing.tables.refusals import RefusalHour
from billing.tables.tenants import Tenant
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_tenant, find_project, set_tenant
from billing.wallets.wallets import NewGrant, grant
from core.clock import clock_from
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.spending import Moment, noons, spend
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOLLAR = 10**9
NOW = Moment(datetime(2025, 11, 18, 13, 32, tzinfo=UTC))


@pytest_asyncio.fixture(loop_scope="session")
async def acme(sqlite: Database) -> AsyncGenerator[Tenant]:
    """A tenant that spends ten dollars at each noon, on 18 November 2025, and may spend 255 in the month."""
    with clock_from(NOW):
        tenant = await create_tenant(sqlite, "acme")
        tenant = await set_tenant(sqlite, tenant.tenant_id, time_zone="Europe/Berlin")
        await budget(sqlite, tenant, 255)
        yield tenant


async def budget(
    db: Database, tenant: Tenant, dollars: int, scope: Scope = Scope.TENANT, id: str = ""
) -> None:
    """A hard budget for the month."""
    await write_budget(
        db,
        tenant.tenant_id,
        scope=scope,
        scope_id=id,
        period=Period.MONTH,
        limit_nano=dollars * DOLLAR,
        hard=True,
        mode=Mode.ENFORCE,
        thresholds=[50],
        author="Ann",
    )


async def opened(
    open_page: OpenPage,
    portal: str,
    settings: Settings,
    db: Database,
    tenant: Tenant,
    role: Role = Role.ADMIN,
) -> WatchedPage:
    """The page as this role sees it."""
    code = await staff_code(settings, db, "Mia", role, tenant.tenant_id)
    watched = await open_page(f"{portal}/#p={code}", own=True, viewport={"width": 1440, "height": 900})
    await expect(watched.page.get_by_role("heading", name="Spend")).to_be_visible()
    return watched


async def strip(page: Page) -> list[str]:
    """The texts of the four numbers."""
    items = page.get_by_label("Money now").locator(".strip-item")
    return [" ".join(text.split()) for text in await items.all_inner_texts()]


async def test_the_sentence_the_numbers_and_the_path_agree(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """The day on which the budget ends stands in the sentence, at the path and in the table; the month before
    is a link, and so is the way back."""
    await spend(sqlite, "acme", noons(date(2025, 9, 20), [10] * 59))
    await grant(sqlite, acme.tenant_id, NewGrant(GrantKind.PAID, 60 * DOLLAR, "one"))
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    lead = page.locator(".lead")
    await expect(lead).to_have_text(
        "At this pace the November budget lasts until Thursday 27 November, 3 days short of the month."
    )
    spent, forecast, left, wallet = await strip(page)
    assert spent == "Spent this month 170.00 170.00 by the 17th: as much as by 17 October"
    assert re.fullmatch(r"Forecast for November about 2[89]\d 2\d0 to 3\d0, 4 of 5 times", forecast)
    assert left.startswith("Budget left 85.00 of 255.00; then requests get 402")
    assert wallet == "Wallet 60.00 prepaid; lasts until about 24 November"
    section = page.get_by_role("region", name="Will the budget last?")
    await expect(section).to_contain_text("crosses the budget on 2025-11-27, and ")
    await section.get_by_role("img").press("ArrowRight")
    await expect(section.get_by_role("status")).to_contain_text("2025-11-18")
    await shot(page, "portal-spend")
    assert await watched.axe() == []
    await section.get_by_text("Table", exact=True).click()
    row = section.get_by_role("row", name="2025-11-17")
    await expect(row).to_contain_text("170.00")
    assert await watched.axe() == []
    await page.get_by_role("link", name="October 2025").click()
    await expect(lead).to_have_text("October cost 310.00, 200.00 more than September.")
    await expect(page).to_have_url(re.compile(r"/portal/spend\?month=2025-10"))
    await expect(page.get_by_text("The month was to close on 2025-11-02 00:00")).to_be_visible()
    await page.go_back()
    await expect(lead).to_contain_text("November budget")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_forecast_above_a_used_up_budget_says_that_it_needs_a_raise(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """Nothing more is spent while requests are refused, so the number and the path say if what; what
    is left says by how much it is over."""
    await spend(sqlite, "acme", noons(date(2025, 10, 20), [20] * 29))
    watched = await opened(open_page, portal, settings, sqlite, acme)
    await expect(watched.page.get_by_text("what is expected comes only if it is raised")).to_be_visible()
    _, forecast, left, _ = await strip(watched.page)
    assert left.startswith("Budget left 0.00 of 255.00, 85.00 over; requests get 402")
    await expect(watched.page.get_by_text("gone on")).to_have_count(0)  # the path has crossed it already
    assert forecast.startswith("Forecast for November, if raised about ")
    await shot(watched.page, "portal-spend-used-up")
    assert await watched.axe() == []


async def test_a_budget_that_is_used_up_says_whose_and_until_when(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """Others go on. Whoever may not raise it is told who may, and sees no button for it."""
    project = await find_project(sqlite, acme.tenant_id, "default")
    assert project is not None
    await budget(sqlite, acme, 20, Scope.PROJECT, project.id)
    await spend(sqlite, "acme", noons(date(2025, 11, 10), [4] * 5))
    key, _ = await create_key(sqlite, acme.tenant_id, project.id)
    async with sqlite.transaction() as session:
        hour = {"hour_ms": NOW.unix_ms - NOW.unix_ms % HOUR_MS, "last_ms": NOW.unix_ms, "number": 96}
        whose = {"key_id": key.id, "user_id": "", "code": "budget_exceeded", "why": "project month"}
        session.add(RefusalHour.model_validate({"tenant_id": acme.tenant_id, **hour, **whose}))
    watched = await opened(open_page, portal, settings, sqlite, acme, Role.BILLING)
    told = watched.page.get_by_role("status").filter(has_text="has used")
    await expect(told).to_contain_text("Project default has used its November budget, 20.00 of 20.00.")
    await expect(told).to_contain_text("refused with 402, 96 this month, the last at 2025-11-18 14:32")
    await expect(told).to_contain_text("opens again on 2025-12-01 00:00 Europe/Berlin")
    await expect(told).to_contain_text("Those who run Parley set it.")
    await expect(told.get_by_role("link", name="Raise the budget")).to_have_count(0)
    row = watched.page.get_by_role("table", name="Other budgets").get_by_role("row", name="default")
    await expect(row).to_contain_text("used up")
    assert await watched.axe() == []


async def test_a_new_tenant_sees_how_to_begin_and_its_first_call_within_seconds(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """Without being loaded anew."""
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    await expect(page.locator(".lead")).to_have_text(
        "Nothing spent yet. The first call shows up here within 5 seconds of its answer."
    )
    assert await strip(page) == [
        "Spent this month 0.00 no usage yet",
        "Forecast for November – after 3 days of usage",
        "Budget left 255.00 of 255.00",
        "Wallet – none: paid by invoice",
    ]
    assert await watched.axe() == []
    await spend(sqlite, "acme", {NOW.at: 3})
    await expect(page.locator(".lead")).to_have_text(
        "The November budget has 252.00 left. A forecast needs three days of use."
    )


async def test_where_no_answer_comes_the_last_figures_stay(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: Tenant
):
    """And say of when they are."""
    await spend(sqlite, "acme", noons(date(2025, 11, 10), [4] * 5))
    watched = await opened(open_page, portal, settings, sqlite, acme)
    page = watched.page
    await expect(page.locator(".strip-value", has_text="20.00").first).to_be_visible()
    await page.route("**/spend*", lambda route: route.abort())
    await expect(page.get_by_role("status").filter(has_text="Figures of")).to_be_visible()
    await expect(page.locator(".strip-value", has_text="20.00").first).to_be_visible()
