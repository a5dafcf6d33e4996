"""The operators' console in a browser: under its policy, in both themes and at each width."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route, expect

from core.configuration.settings import Settings
from core.sql.database import Database
from scripts.page import CONSOLE, build
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import running_console
from tests.browser.overview_sample import overview
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SHOTS = os.environ.get("PARLEY_SCREENSHOTS")  # a folder, for eyes


@pytest.fixture(scope="session", autouse=True)
def built_console() -> None:
    """The console as its sources are."""
    build(CONSOLE)


@pytest_asyncio.fixture(loop_scope="session")
async def console(settings: Settings, sqlite: Database) -> AsyncGenerator[str]:
    """A console's address."""
    async with running_console(settings) as url:
        yield url


class PlayedOverview:
    """The overview as the test wants it now."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = overview()

    async def __call__(self, route: Route) -> None:
        """A handler for Playwright. None: the console does not answer."""
        if self.answer is None:
            await route.abort()
        else:
            await route.fulfill(json=self.answer)


async def opened(
    open_page: OpenPage, url: str, code: str, played: PlayedOverview, **options: Any
) -> WatchedPage:
    """The console's page, signed in by a link."""
    watched = await open_page(f"{url}/healthz", own=True, **options)
    await watched.page.route("**/api/overview", played)
    await watched.page.goto(f"{url}/#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


async def shot(page: Page, name: str) -> None:
    """A picture for eyes, where somebody asked for it."""
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_keeps_its_policy_whatever_is_opened(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database, scheme: str
):
    """A dialog, a drawer, the chart under the pointer and as a table, the menu: the policy, as strict as the
    chat page's, is never broken, nothing is asked of another origin, and axe finds nothing."""
    code = await staff_code(settings, sqlite)
    watched = await opened(
        open_page,
        console,
        code,
        PlayedOverview(),
        color_scheme=scheme,
        viewport={"width": 1440, "height": 900},
    )
    page = watched.page
    await expect(page.get_by_role("heading", level=1)).to_have_text(overview()["verdict"]["text"])
    assert await page.evaluate("document.documentElement.dataset.mantineColorScheme") == scheme
    await shot(page, f"overview-{scheme}")
    assert await watched.axe() == []

    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox")).to_be_focused()
    await page.keyboard.type("over")
    await expect(page.get_by_role("option", name="Overview")).to_have_attribute("aria-selected", "true")
    await shot(page, f"search-{scheme}")
    assert await watched.axe() == []
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="Live balances").click()
    await expect(page.get_by_role("dialog", name="Live balances = posted")).to_be_visible()
    await shot(page, f"light-{scheme}")
    assert await watched.axe() == []
    await page.keyboard.press("Escape")

    await page.get_by_role("img", name="Load of the last hour").hover()
    await expect(page.locator(".chart-tip")).to_contain_text("Running")
    await shot(page, f"chart-{scheme}")
    await page.get_by_role("button", name="Show as table").click()
    await expect(page.get_by_role("columnheader", name="Time, UTC")).to_be_visible()
    await page.get_by_role("button", name="Account of").click()
    await expect(page.get_by_role("menuitem", name="Sign out")).to_be_visible()
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_at_390_pixels_nothing_scrolls_sideways(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """One column; the pages are behind a button."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, PlayedOverview(), viewport={"width": 390, "height": 844})
    page = watched.page
    await expect(page.get_by_role("region", name="Waiting")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await shot(page, "overview-390")
    assert await watched.axe() == []
    await page.get_by_role("button", name="Pages").click()
    await expect(page.get_by_role("dialog").get_by_role("link", name="Overview")).to_be_visible()
    await shot(page, "drawer-390")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])
