"""Every kind of page that the console's router lists, on real stores with a fleet that lives: no new one is
forgotten."""

from collections.abc import AsyncGenerator
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Request, ViewportSize, expect

from billing.seeding.fill import seed_settings
from billing.seeding.shapes import SeedShape
from billing.seeding.usage_posting import post_seeded_usage
from chaos.bench.console_pages import change_theme, console_pages, show
from chaos.bench.simulated_workers import SimulatedWorkers, even_pools
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database
from scripts.page import CONSOLE, script_bytes
from tests.browser.conftest import OpenPage
from tests.browser.console_page import running_console
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE = ViewportSize(width=1440, height=900)
PHONE = ViewportSize(width=390, height=844)
SCRIPT_BYTES_MAX = 400_000  # compressed, of a page that is opened first
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
PAGES = console_pages()


@pytest_asyncio.fixture(loop_scope="session")
async def examples(settings: Settings, sqlite: Database) -> AsyncGenerator[tuple[str, dict[str, str]]]:
    """A console's address, and an example of each parameter of its pages' paths."""
    shape = SeedShape(3, 30, now_ms())
    seeded = await seed_settings(sqlite, shape, lambda _: None)
    await post_seeded_usage(sqlite, shape, seeded.sources, settings.pool)
    async with running_console(settings) as url:
        redis = connect(settings)
        simulated = SimulatedWorkers(redis, settings, even_pools(workers=3, pools=2))
        await simulated.begin([each.tenant for each in seeded.sources], held=2)
        async with simulated.beating():
            tenant, request = simulated.requests[0]
            yield url, {"tenant": tenant, "pool": "pool-0", "request": f"{request}?tenant={tenant}"}
        await redis.aclose()


async def test_each_page_keeps_the_policy_in_both_themes_at_both_widths(
    open_page: OpenPage, examples: tuple[str, dict[str, str]], settings: Settings, sqlite: Database
):
    """Axe finds nothing, no error is told (a broken policy would be one), nothing is asked of another origin,
    nothing scrolls sideways."""
    url, named = examples
    watched = await open_page(f"{url}/#p={await staff_code(settings, sqlite)}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("button", name="Account of")).to_be_visible()
    faults: list[str] = []
    for each in PAGES:
        await show(page, url + each.address(named))
        for width in (WIDE, PHONE):
            await page.set_viewport_size(width)
            for scheme in THEMES:
                await change_theme(page, scheme)
                seen = f"{each.name}, {width['width']} px, {scheme}"
                faults += [f"{seen}: {found}" for found in await watched.axe()]
            faults += [f"{each.name} scrolls sideways at {width['width']} px"] * await page.evaluate(SIDEWAYS)
        faults += [f"{each.name}: {error}" for error in (*watched.errors, *watched.strangers)]
        watched.errors.clear()
    assert faults == []


async def test_no_page_loads_many_scripts(
    open_page: OpenPage, examples: tuple[str, dict[str, str]], settings: Settings, sqlite: Database
):
    """Whichever is opened first: its own scripts and those that all pages share."""
    url, named = examples
    watched = await open_page(f"{url}/#p={await staff_code(settings, sqlite)}", own=True)
    sizes, loaded = script_bytes(CONSOLE), set[str]()

    def note(request: Request) -> None:
        if request.resource_type == "script":
            loaded.add(request.url.rsplit("/", 1)[-1])

    watched.page.on("request", note)
    for each in PAGES:
        loaded.clear()
        await show(watched.page, url + each.address(named))
        weight = sum(sizes[script] for script in loaded)
        assert 0 < weight < SCRIPT_BYTES_MAX, each.name


async def test_the_keys_work_on_each_page(
    open_page: OpenPage, examples: tuple[str, dict[str, str]], settings: Settings, sqlite: Database
):
    """`?` lists them, `/` and Ctrl K search, `g` and the letters that are listed go to their pages; the list
    and the search give the keys back when they close."""
    url, named = examples
    watched = await open_page(f"{url}/#p={await staff_code(settings, sqlite)}", own=True, viewport=WIDE)
    page = watched.page
    await expect(page.get_by_role("button", name="Account of")).to_be_visible()
    for each in PAGES:
        await show(page, url + each.address(named))
        for key in ("/", "Control+k"):
            await page.keyboard.press(key)
            await expect(page.get_by_role("combobox", name="Search")).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.keyboard.press("?")
        listed = page.get_by_role("dialog", name="Keys").get_by_role("row").filter(has_text="g ")
        letters = [row.split("\t") for row in await listed.all_inner_texts()]
        assert letters
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        for keys, title in letters:
            for key in keys.split():
                await page.keyboard.press(key)
            link = page.get_by_role("navigation").get_by_role("link", name=title, exact=True)
            await expect(link).to_have_attribute("aria-current", "page")
            await expect(link).to_have_attribute("data-status", "active")
    assert watched.errors == []
