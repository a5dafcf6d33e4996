"""The console's pages of tenants: on real stores, and edited by what is typed there."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from billing.limits import Dimension, Scope
from billing.operations import budgets, keys, limits, plans, tenants, wallets
from billing.operations.budgets import SetBudget
from billing.operations.keys import CreateKey
from billing.operations.limits import SetLimit
from billing.operations.plans import AssignPlan, CreatePlan
from billing.operations.tenants import CreateTenant, NameTenant
from billing.operations.wallets import GrantMoney
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.configuration.settings import Settings
from core.operations import MoneyAmount
from core.redis.client import connect
from core.sql.database import Database
from scripts.page import CONSOLE, build
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import running_console
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SHOTS = os.environ.get("PARLEY_SCREENSHOTS")  # a folder, for eyes
WIDE = {"width": 1440, "height": 900}


@pytest.fixture(scope="session", autouse=True)
def built_console() -> None:
    """The console as its sources are."""
    build(CONSOLE)


@pytest_asyncio.fixture(loop_scope="session")
async def console(settings: Settings, sqlite: Database) -> AsyncGenerator[tuple[str, Stores]]:
    """A console's address and its stores, with acme, which has a bit of all, and tyrell, without a key."""
    async with running_console(settings) as url:
        redis = connect(settings)
        stores = Stores(settings, sqlite, lambda: redis)
        await fill(stores)
        yield url, stores
        await redis.aclose()


async def fill(stores: Stores) -> None:
    """What the pages show."""

    async def done(run: Callable[[Any, Any], Awaitable[Any]], ask: msgspec.Struct) -> Any:
        return await answer_of(run, stores, OWNER, ask, Terms(reason="a test's"))

    for name in ("acme", "tyrell"):
        await done(tenants.create_tenant, CreateTenant(name=name))
    plan = await done(plans.create_plan, CreatePlan(name="Starter"))
    await done(plans.assign_plan, AssignPlan(tenant="acme", plan=plan.plan))
    await done(keys.create_key, CreateKey(tenant="acme", name="chat-web", user="ann"))
    per_minute = SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.REQUESTS, limit=1200)
    await done(limits.set_limit, per_minute)
    await done(budgets.set_budget, SetBudget(tenant="acme", limit=MoneyAmount.of(25 * 10**12)))
    amount = MoneyAmount.of(50_000_000_001)
    await done(wallets.grant, GrantMoney(tenant="acme", amount=amount, key="first"))
    await done(tenants.create_tenant, CreateTenant(name="umbra"))
    await done(tenants.close_tenant, NameTenant(tenant="umbra"))


async def opened(open_page: OpenPage, console: tuple[str, Stores], path: str, **options: Any) -> WatchedPage:
    """A page of the console, for an owner."""
    url, stores = console
    code = await staff_code(stores.settings, stores.db)
    watched = await open_page(f"{url}/console{path}#p={code}", own=True, **options)
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


async def shot(page: Page, name: str) -> None:
    """A picture for eyes, where somebody asked for it."""
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_tenants_are_found_and_each_has_a_page(
    open_page: OpenPage, console: tuple[str, Stores], scheme: str
):
    """The list, filtered in its address; a tenant with all it has; one without a key, which says
    what is next. Axe finds nothing, the policy holds, and nobody else is asked."""
    watched = await opened(open_page, console, "/tenants", color_scheme=scheme, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("heading", level=1)).to_have_text("3 tenants.")
    await shot(page, f"tenants-{scheme}")
    assert await watched.axe() == []
    await page.get_by_label("State").select_option("closed")
    await expect(page.get_by_role("heading", level=1)).to_have_text("1 closed tenant.")
    assert page.url.endswith("/tenants?state=closed")
    await page.get_by_label("Name contains").fill("nobody")
    await expect(page.get_by_role("link", name="Clear filters")).to_be_visible()
    await page.get_by_role("link", name="Clear filters").click()

    await page.get_by_role("link", name="acme").click()
    await expect(page.get_by_role("table", name="Limits")).to_contain_text("1,200")
    await expect(page.get_by_role("table", name="Keys")).to_contain_text("chat-web")
    await expect(page.get_by_role("region", name="Wallet")).to_contain_text("50.000000001")
    await expect(page.get_by_role("region", name="Audit")).to_contain_text("a test's")
    await expect(page.get_by_text("Within all limits.")).to_be_visible()
    await shot(page, f"tenant-{scheme}")
    assert await watched.axe() == []

    await page.get_by_role("link", name="Tenants").first.click()
    await page.get_by_role("link", name="tyrell").click()
    await expect(page.get_by_role("heading", name="No key, so no requests yet")).to_be_visible()
    await shot(page, f"tenant-empty-{scheme}")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_on_a_phone_a_row_is_two_lines(open_page: OpenPage, console: tuple[str, Stores]):
    """Neither page scrolls sideways, and axe finds nothing."""
    watched = await opened(open_page, console, "/tenants", viewport={"width": 390, "height": 844})
    page = watched.page
    sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    await expect(page.get_by_role("link", name="acme")).to_be_visible()
    assert not await page.evaluate(sideways)
    await shot(page, "tenants-390")
    assert await watched.axe() == []
    await page.get_by_role("link", name="acme").click()
    await expect(page.get_by_text("chat-web")).to_be_visible()
    await expect(page.get_by_text("1,200")).to_be_visible()
    assert not await page.evaluate(sideways)
    await shot(page, "tenant-390")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])
