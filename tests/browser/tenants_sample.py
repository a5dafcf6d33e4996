"""A console with tenants that have a bit of all, for tests of their pages."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from billing.limits import Dimension, Scope
from billing.operations import budgets, desired_pools, keys, limits, plans, tenants, wallets
from billing.operations.budgets import SetBudget
from billing.operations.desired_pools import CreatePool
from billing.operations.keys import CreateKey
from billing.operations.limits import SetLimit
from billing.operations.plans import AssignPlan, CreatePlan
from billing.operations.tenants import CreateTenant, NameTenant
from billing.operations.wallets import GrantMoney
from billing.posting.biller import post
from billing.tenants.tenancy import find_project, find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import MoneyAmount
from core.redis.client import connect
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import running_console
from tests.support.models import add_model
from tests.support.staff import staff_code

WIDE = {"width": 1440, "height": 900}


@pytest_asyncio.fixture(loop_scope="session")
async def console(
    built_console: None, settings: Settings, sqlite: Database
) -> AsyncGenerator[tuple[str, Stores]]:
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
    await use(stores)  # before there is a wallet, which pays none of it
    amount = MoneyAmount.of(50_000_000_001)
    await done(wallets.grant, GrantMoney(tenant="acme", amount=amount, key="first"))
    await done(tenants.create_tenant, CreateTenant(name="umbra"))
    await done(tenants.close_tenant, NameTenant(tenant="umbra"))
    await add_model(stores.db, "m", "v1", 1)
    await done(desired_pools.create_pool, CreatePool(pool="acme-1", model="m", tenant="acme"))


async def use(stores: Stores) -> None:
    """What acme used in the last day, with some errors, and what it runs now in its pool."""
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    project = await find_project(stores.db, acme.tenant_id, "default")
    assert project is not None
    now = now_ms()
    owner = UsageOwner(project.id, "k1", "u1")
    events: list[bytes] = []
    for number in range(48):
        ended = now - number * 30 * 60_000
        times = {"accepted_ms": ended - 3000, "first_token_ms": ended - 2600 + number, "ended_ms": ended}
        reason = "error" if number % 9 == 1 else "stop"
        output = 500 + 90 * (number % 5)
        events.append(
            encode(
                an_event(
                    f"r{number}", acme.tenant_id, owner=owner, reason=reason, output_text=output, **times
                )
            )
        )
    await post(stores.db, "default", events)
    await stores.redis.sadd(f"{stores.settings.installation}:pools", "acme-1")
    await stores.redis.sadd(f"{{p:acme-1}}run:{acme.tenant_id}", "a", "b")
    await stores.redis.zadd(f"{{t:{acme.tenant_id}}}live", {"a": 1, "b": 2, "c": 3})


async def opened(open_page: OpenPage, console: tuple[str, Stores], path: str, **options: Any) -> WatchedPage:
    """A page of the console, for an owner."""
    url, stores = console
    code = await staff_code(stores.settings, stores.db)
    watched = await open_page(f"{url}/console{path}#p={code}", own=True, **options)
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


async def in_dialog(page: Page, opener: str, title: str) -> Locator:
    """The dialog that a button opens."""
    await page.get_by_role("button", name=opener, exact=True).click()
    dialog = page.get_by_role("dialog", name=title)
    await expect(dialog).to_be_visible()
    return dialog
