"""Pools that are made, changed and deleted on the console's pages, over real stores."""

import re

import pytest
from playwright.async_api import expect

from billing.pools import read_pools
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.support.models import add_model
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_pool_is_made_resized_drained_and_deleted(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """Each with its reason, and what the fleet should make of it is in SQL at once. An unknown model is told
    beside its field; a pool that still takes requests is not deleted."""
    await add_model(sqlite, "smollm2")
    code = await staff_code(settings, sqlite)
    watched = await open_page(f"{console}/healthz", own=True)
    page = watched.page
    await page.goto(f"{console}/console/pools#p={code}")
    await page.get_by_role("button", name="Create pool").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("eu-1")
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
        await page.get_by_role("button", name="Change").click()
        await page.get_by_role("menuitem", name=word).click()
        await dialog.get_by_label("Reason").fill("less to do")

    await change("Resize")
    await dialog.get_by_label("Desired workers").fill("3")
    await expect(dialog.get_by_text("1 → 3")).to_be_visible()
    await shot(page, "resize-pool")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    assert [pool.workers for pool in await read_pools(sqlite)] == [3]

    await change("Delete")
    await dialog.get_by_label("Type eu-1 to confirm").fill("eu-1")
    await dialog.get_by_role("button", name="Delete pool").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("rain")
    await dialog.get_by_role("button", name="Cancel").click()
    await change("Drain")
    await dialog.get_by_role("button", name="Drain pool").click()
    await expect(page.get_by_role("region", name="Desired")).to_contain_text("draining")
    await shot(page, "desired-pool")
    assert await watched.axe() == []
    await change("Delete")
    await dialog.get_by_label("Type eu-1 to confirm").fill("eu-1")
    await dialog.get_by_role("button", name="Delete pool").click()
    await expect(page).to_have_url(re.compile("/console/pools$"))
    assert await read_pools(sqlite) == []
    assert watched.strangers == []
