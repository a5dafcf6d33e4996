"""Budgets, limits and alerts of a tenant's admin, in a browser on real stores."""

from collections.abc import AsyncGenerator
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from billing.enforcement.limit_settings import list_budgets
from billing.limits import Scope
from billing.operations import budgets, tenants
from billing.operations.budgets import SetBudget
from billing.operations.tenants import CreateTenant
from billing.periods import HOUR_MS
from billing.reports.last_month import last_month
from billing.seeding.bulk import write_records
from billing.tables.ledger import RollupHour
from billing.tables.tenants import ApiKey, Tenant
from billing.tenants.tenancy import find_project
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import MoneyAmount, Role
from core.redis.client import connect
from core.sql.database import Database
from tests.billing.operations.acting import OWNER, member_of
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

USD = 1_000_000_000
DAY_MS = 86_400_000
WHY = Terms(reason="test")


def of_month(tenant: str, amount: int) -> SetBudget:
    """A month's budget of the whole tenant."""
    return SetBudget(tenant=tenant, limit=MoneyAmount.of(amount * USD))


@pytest_asyncio.fixture(loop_scope="session")
async def made(settings: Settings, sqlite: Database) -> AsyncGenerator[tuple[Stores, str]]:
    """Stores, and a tenant with a budget of the operators."""
    redis = connect(settings)
    stores = Stores(settings, sqlite, lambda: redis)
    tenant = await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"), WHY)
    await answer_of(budgets.set_budget, stores, OWNER, of_month("acme", 100), WHY)
    yield stores, tenant.tenant
    await redis.aclose()


async def used_last_month(db: Database, tenant: str) -> None:
    """Seven keys, each an hour after the other, behind one that spent 42 USD; the tenant is a year old."""
    first = last_month(ZoneInfo("UTC"), now_ms()).start_ms
    who = dict.fromkeys(("cost_center_id", "user_id", "model", "pool"), "m")
    tokens = dict.fromkeys(("errors", "input_uncached", "input_cached", "output_text", "output_reasoning"), 0)
    async with db.transaction() as session:
        row = await session.get(Tenant, tenant)
        assert row is not None
        row.created_ms -= 365 * DAY_MS
        for number in range(8):
            facts = {"hour_ms": first + number * HOUR_MS, "key_id": f"key {number}", "project_id": "p"}
            sums = (
                {"requests": 750, "amount_nano": USD * 5 // 7}
                if number
                else {"requests": 9, "amount_nano": 42 * USD}
            )
            session.add(RollupHour.model_validate({"tenant_id": tenant} | facts | who | sums | tokens))


def a_key(tenant: str, project: str, number: int) -> ApiKey:
    """One of many."""
    id = f"k{number:05}"
    return ApiKey(
        tenant_id=tenant,
        id=id,
        project_id=project,
        name=f"number {number}",
        prefix=f"p{number}",
        secret_sha256=f"{number:064}",
        owner_key=id,
        scopes=["chat"],
        priority_max="standard",
        created_ms=number,
    )


def faults(watched: WatchedPage) -> list[str]:
    """What went wrong but for refusals that the page tells."""
    told = [each for each in watched.errors if "the server responded with a status of 4" not in each]
    return [*told, *watched.strangers]


async def opened(
    open_page: OpenPage, portal: str, settings: Settings, db: Database, tenant: str, role: Role = Role.ADMIN
) -> WatchedPage:
    """The page, as a member sees it."""
    watched = await open_page(f"{portal}/#p={await staff_code(settings, db, 'Mia', role, tenant)}", own=True)
    await expect(watched.page.get_by_role("button", name="Account of").first).to_be_visible()
    await watched.page.goto(f"{portal}/portal/limits")
    return watched


def row(page: Page, table: str, text: str) -> Locator:
    """A row of a table."""
    return page.get_by_role("table", name=table, exact=True).get_by_role("row").filter(has_text=text)


async def test_an_admin_sets_a_budget_below_the_operators(
    open_page: OpenPage, portal: str, made: tuple[Stores, str], settings: Settings, sqlite: Database
):
    """A higher one is refused beside its field; a lower one stands beside Parley's, is edited, and tells what
    it does; what another one set meanwhile is told, and what was typed is kept. Its address opens it."""
    stores, tenant = made
    watched = await opened(open_page, portal, settings, sqlite, tenant)
    page = watched.page
    await expect(row(page, "Budgets", "Parley")).to_contain_text("100.00")
    await page.get_by_role("button", name="New budget…").click()
    dialog = page.get_by_role("dialog", name="Add a budget of acme")
    await dialog.get_by_label("Budget, USD").fill("250")
    await expect(dialog).to_contain_text("Parley's own limit here is")
    await dialog.get_by_label("Budget, USD").fill("40.00")
    await expect(dialog).to_contain_text("Spent so far 0.00: 40.00 would be left")
    await shot(page, "portal-budget")
    assert await watched.axe() == []
    await dialog.get_by_label("Reason").fill("a loop must not cost more")
    await dialog.get_by_role("button", name="Add budget").click()
    await expect(row(page, "Budgets", "you")).to_contain_text("40.00")
    await page.get_by_role("button", name="Edit Whole tenant, month").click()
    dialog = page.get_by_role("dialog", name="Budget: Whole tenant, month")
    await dialog.get_by_label("Budget, USD").fill("50")
    await dialog.get_by_label("Reason").fill("pilot")
    await answer_of(budgets.set_budget, stores, member_of(tenant, Role.ADMIN), of_month(tenant, 60), WHY)
    await dialog.get_by_role("button", name="Save budget").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Not saved: Mia changed this budget")
    await expect(dialog.get_by_role("alert")).to_contain_text("from 40.00 to 60.00. What you typed is kept.")
    await expect(dialog.get_by_label("Budget, USD")).to_have_value("50")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Save over it").click()
    await expect(row(page, "Budgets", "you")).to_contain_text("50.00")
    found = [(each.limit_nano // USD, each.by_tenant) for each in await list_budgets(sqlite, tenant)]
    assert found == [(100, False), (50, True)]
    mine = next(each for each in await list_budgets(sqlite, tenant) if each.by_tenant)
    await page.goto(f"{portal}/portal/limits?budget={mine.id}")
    await expect(dialog.get_by_label("Budget, USD")).to_have_value("50.00")
    await shot(page, "portal-budget-by-address")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert page.url.endswith("/limits")
    await page.get_by_role("button", name="End Whole tenant, month").click()
    dialog = page.get_by_role("dialog", name="End Whole tenant, month")
    await dialog.get_by_label("Reason").fill("over")
    await dialog.get_by_role("button", name="End budget").click()
    await expect(row(page, "Budgets", "you")).to_have_count(0)
    assert faults(watched) == []


async def test_the_dialog_tells_what_it_would_have_done_last_month(
    open_page: OpenPage, portal: str, made: tuple[Stores, str], settings: Settings, sqlite: Database
):
    """Of a budget whom it would have refused, of a limit in how many hours more came."""
    _, tenant = made
    await used_last_month(sqlite, tenant)
    watched = await opened(open_page, portal, settings, sqlite, tenant)
    page = watched.page
    await page.get_by_role("button", name="New budget…").click()
    dialog = page.get_by_role("dialog", name="Add a budget of acme")
    await dialog.get_by_label("Budget, USD").fill("40.00")
    told = dialog.get_by_role("region", name="What this does")
    await expect(told).to_contain_text("it would have refused 5,250 requests of 5.00 with 402")
    await expect(told).to_contain_text("Other 2 keys")
    await shot(page, "portal-budget-last-month")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="New limit…").click()
    dialog = page.get_by_role("dialog", name="Set a limit of acme")
    await dialog.get_by_label("Limit", exact=True).fill("10")
    told = dialog.get_by_role("region", name="What this does")
    await expect(told).to_contain_text("In 7 hours of")
    await expect(told).to_contain_text("Minutes within an hour are not kept")
    await shot(page, "portal-limit-last-month")
    assert await watched.axe() == []
    assert faults(watched) == []


async def test_of_thousands_of_keys_each_has_its_name(
    open_page: OpenPage, portal: str, made: tuple[Stores, str], settings: Settings, sqlite: Database
):
    """Also one behind the first page of the list."""
    stores, tenant = made
    project = await find_project(sqlite, tenant, "default")
    assert project is not None
    keys = [a_key(tenant, project.id, number) for number in range(2_500)]
    await write_records(sqlite, {ApiKey: keys})
    ask = SetBudget(tenant="acme", limit=MoneyAmount.of(USD), scope=Scope.KEY, of="pk_p2499")
    await answer_of(budgets.set_budget, stores, OWNER, ask, WHY)
    watched = await opened(open_page, portal, settings, sqlite, tenant)
    await expect(row(watched.page, "Budgets", "key number 2499")).to_contain_text("1.00")
    await shot(watched.page, "portal-limits-many-keys")
    assert faults(watched) == []


async def test_alerts_go_where_an_admin_says(
    open_page: OpenPage, portal: str, made: tuple[Stores, str], settings: Settings, sqlite: Database
):
    """A wrong address is refused at its field; a webhook's secret is shown once; a test waits to be sent; a
    target that is removed is gone."""
    _, tenant = made
    watched = await opened(open_page, portal, settings, sqlite, tenant)
    page = watched.page
    await page.get_by_role("button", name="Add where…").click()
    dialog = page.get_by_role("dialog", name="Where alerts go")
    await dialog.get_by_label("By").select_option("webhook")
    await dialog.get_by_label("URL").fill("ftp://nowhere")
    await expect(dialog.get_by_label("URL")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("URL").fill("https://hooks.example.com/parley")
    await dialog.get_by_label("Reason").fill("finance asked")
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(dialog).to_contain_text("whsec_")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="I have stored it").click()
    target = row(page, "Where alerts go", "hooks.example.com")
    await target.get_by_role("button", name="Test").click()
    await expect(target).to_contain_text("waiting")
    await target.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Tell https://hooks.example.com/parley no more")
    await dialog.get_by_label("Reason").fill("moved")
    await dialog.get_by_role("button", name="Remove", exact=True).click()
    await expect(page.get_by_text("Nowhere yet")).to_be_visible()
    assert faults(watched) == []


async def test_who_only_reads_has_no_buttons(
    open_page: OpenPage, portal: str, made: tuple[Stores, str], settings: Settings, sqlite: Database
):
    """The page says so; nothing is there that would be refused."""
    _, tenant = made
    watched = await opened(open_page, portal, settings, sqlite, tenant, Role.BILLING)
    page = watched.page
    await expect(page.get_by_role("note")).to_contain_text("Your role is Finance:")
    await expect(row(page, "Budgets", "Parley")).to_be_visible()
    for name in ("New budget…", "New limit…", "Add where…"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    assert faults(watched) == []
