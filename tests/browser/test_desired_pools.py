"""Pools that are made, changed and deleted on the console's pages, over real stores."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from billing.api import OperationActor, Stores, Terms, create_tenant
from billing.operations.desired_pools import ResizePool, resize_pool
from billing.pools import FleetNode, PoolRow, create_pool, read_pools
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.support.models import add_model
from tests.support.redis import Redis
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_pool_is_made_resized_drained_and_deleted(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, redis: Redis
):
    """Each with its reason, and what the fleet should make of it is in SQL at once. An unknown model is told
    beside its field; a pool with requests is drained, and deleted once they have ended."""
    await add_model(sqlite, "smollm2")
    for name in ("acme", "globex"):
        await create_tenant(sqlite, name)
    code = await staff_code(settings, sqlite)
    watched = await open_page(f"{console}/healthz", own=True)
    page = watched.page
    await page.goto(f"{console}/console/pools#p={code}")
    await page.get_by_role("button", name="Create pool").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("eu-1")
    offered = dialog.locator("datalist option")
    await dialog.get_by_label("Tenant").fill("glob")
    await expect(offered).to_have_count(1)
    await expect(offered).to_have_attribute("value", "globex")
    await dialog.get_by_label("Tenant").fill("")
    await dialog.get_by_label("Model").fill("nosuch")
    await dialog.get_by_label("Reason").fill("acme grows")
    await expect(dialog.get_by_text("nosuch")).to_be_visible()
    assert await watched.axe() == []
    await dialog.get_by_label("Model").fill("smollm2")
    await expect(dialog.get_by_text("smollm2 v1")).to_be_visible()
    await shot(page, "create-pool")
    await dialog.get_by_role("button", name="Create pool").click()
    await expect(page).to_have_url(re.compile("/console/pools/eu-1$"))
    assert [(pool.pool, pool.workers) for pool in await read_pools(sqlite)] == [("eu-1", 1)]

    async def change(word: str) -> None:
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name=word).click()
        await dialog.get_by_label("Reason").fill("less to do")

    await resize(page, "3")
    await expect(dialog.get_by_text("1 → 3")).to_be_visible()
    await shot(page, "resize-pool")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    assert [pool.workers for pool in await read_pools(sqlite)] == [3]

    await change("Drain")
    await dialog.get_by_role("button", name="Drain pool").click()
    await expect(page.get_by_role("region", name="Desired")).to_contain_text("draining")
    await change("Take back")
    await expect(dialog.get_by_text("3, as before")).to_be_visible()
    await dialog.get_by_role("button", name="Take back").click()
    await expect(page.get_by_role("region", name="Desired")).to_contain_text("active")
    await shot(page, "desired-pool")
    assert await watched.axe() == []
    await change("Delete")
    await dialog.get_by_label("Type eu-1 to confirm").fill("eu-1")
    await redis.zadd("{p:eu-1}deadlines", {"t:r": 9e15})
    await dialog.get_by_role("button", name="Drain, then delete").click()
    await expect(dialog.get_by_text("has 1 requests and 0 workers")).to_be_visible()
    await shot(page, "emptying-pool")
    assert await watched.axe() == []
    assert [pool.draining for pool in await read_pools(sqlite)] == [True]
    await redis.delete("{p:eu-1}deadlines")
    await expect(page).to_have_url(re.compile("/console/pools$"))
    assert await read_pools(sqlite) == []
    assert watched.strangers == []


async def resize(page: Page, workers: str) -> Locator:
    """Type another number of workers, with a reason."""
    await page.get_by_role("button", name="Resize…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Desired workers").fill(workers)
    await dialog.get_by_label("Reason").fill("less to do")
    return dialog


async def test_what_is_wrong_is_told_beside_its_field_and_nothing_typed_is_lost(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, redis: Redis
):
    """A pool larger than the fleet's machines; another operator who was faster; a session that ends."""
    await add_model(sqlite, "smollm2")
    code = await staff_code(settings, sqlite)
    row = PoolRow(pool="eu-1", model="smollm2", version="v1", workers=2, labels={"zone": "eu"}, made_ms=1)
    await create_pool(sqlite, row)
    node = FleetNode(node="n", room=9, labels={"zone": "eu"}, controller="c", observed_ms=now_ms())
    async with sqlite.transaction() as session:
        session.add(node)
    watched = await open_page(f"{console}/healthz", own=True)
    page = watched.page
    await page.goto(f"{console}/console/pools/eu-1#p={code}")
    dialog = await resize(page, "12")
    field = dialog.get_by_label("Desired workers")
    told = "The fleet has room for 9 workers on nodes with zone=eu: set at most 9, or remove a label."
    await expect(field).to_have_accessible_description(re.compile(re.escape(told)))
    await shot(page, "pool-too-large")
    assert await watched.axe() == []

    await field.fill("5")
    await expect(dialog.get_by_text("2 → 5")).to_be_visible()
    stores = Stores(settings, sqlite, lambda: redis)
    bea = OperationActor(Author("Bea", "api"), Role.OPERATOR)
    await answer_of(resize_pool, stores, bea, ResizePool(pool="eu-1", workers=8), Terms("initech grows"))
    await dialog.get_by_role("button", name="Save").click()
    conflict = dialog.get_by_role("alert")
    await expect(conflict).to_contain_text("Not saved. Bea set this pool to 8 workers")
    await expect(conflict).to_contain_text("(“initech grows”). What you typed is kept.")
    await shot(page, "pool-conflict")
    assert await watched.axe() == []

    await page.context.clear_cookies()
    await dialog.get_by_role("button", name="Save over 8").click()
    await expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    await expect(field).to_have_value("5")
    assert [pool.workers for pool in await read_pools(sqlite)] == [8]
