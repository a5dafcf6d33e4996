"""The operators' console in a browser: under its policy, in both themes and at each width."""

import re
from typing import Any

import pytest
from playwright.async_api import Route, expect
from pyotp.totp import TOTP

from billing.people.own_account import set_password
from billing.people.passwords import Passwords
from billing.people.persons import create_member
from billing.tables.tenants import PLATFORM
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.browser.overview_sample import overview
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class PlayedOverview:
    """The overview as the test wants it now."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = overview()
        self.status = 200

    async def __call__(self, route: Route) -> None:
        """A handler for Playwright. None: the console does not answer."""
        if self.answer is None:
            await route.abort()
        else:
            await route.fulfill(json=self.answer, status=self.status)


async def opened(
    open_page: OpenPage, url: str, code: str, played: PlayedOverview, **options: Any
) -> WatchedPage:
    """The console's page, signed in by a link."""
    watched = await open_page(f"{url}/healthz", own=True, **options)
    await watched.page.route("**/api/overview", played)
    await watched.page.goto(f"{url}/#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_be_visible()
    return watched


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
    await page.get_by_role("button", name="Pages").click()
    await expect(page.get_by_role("dialog").get_by_role("link", name="Overview")).to_be_visible()
    await shot(page, "drawer-390")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_old_numbers_never_stand_under_all_well(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """Where no news comes, the sentence and the badge say since when, and the numbers stay, soft."""
    played = PlayedOverview()
    played.answer = overview("well")
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, played)
    page = watched.page
    await expect(page.get_by_role("heading", level=1)).to_have_text("All well.")
    played.answer = None
    await expect(page.get_by_role("heading", level=1)).to_contain_text("It was well")
    await expect(page.get_by_role("status").filter(has_text="Stale")).to_be_visible()
    await expect(page.get_by_text("5,881")).to_be_visible()
    played.answer = overview("well")
    await expect(page.get_by_role("heading", level=1)).to_have_text("All well.")


async def test_a_session_that_ends_leaves_the_page_as_it_is(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """Signing in is asked above it: what stands there, and what was typed, is kept."""
    played = PlayedOverview()
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, played)
    page = watched.page
    played.status = 401
    dialog = page.get_by_role("dialog", name="Your session has ended")
    await expect(dialog.get_by_label("E-mail")).to_be_visible()
    await expect(page.get_by_text("5,881")).to_be_attached()
    assert await watched.axe() == []


async def test_who_is_not_signed_in_sees_how_to_and_comes_in_by_password(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """On a phone in the dark, too; a wrong password is told beside what was typed."""
    member = await create_member(sqlite, PLATFORM, "Ann", Role.OWNER, email="ann@example.com")
    await set_password(sqlite, member.person.id, await Passwords().hash("correct horse battery staple"))
    watched = await open_page(
        f"{console}/console/", own=True, color_scheme="dark", viewport=PHONE["viewport"]
    )
    page = watched.page
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await watched.axe() == []
    await shot(page, "sign-in")
    await page.get_by_label("E-mail").fill("ann@example.com")
    await page.get_by_role("textbox", name="Password").fill("wrong")
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_role("textbox", name="Password").fill("correct horse battery staple")
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("button", name="Account of Ann")).to_be_visible()


async def test_a_write_that_waits_for_a_code_asks_for_it_and_goes_on(
    open_page: OpenPage, console: str, settings: Settings, sqlite: Database
):
    """Who has no authenticator sets one up in the same dialog; what was begun is then done once."""
    code = await staff_code(settings, sqlite)
    watched = await opened(open_page, console, code, PlayedOverview())
    page = watched.page
    asked: list[dict[str, str]] = []
    kind = {"type": "urn:parley:problem:second_factor", "title": "", "status": 403, "detail": "show a code"}

    async def writing(route: Route) -> None:
        asked.append(route.request.headers)
        if len(asked) == 1:
            await route.fulfill(status=403, json=kind)
        else:
            await route.continue_()

    await page.route(
        "**/api/tenants*",
        lambda route: writing(route) if route.request.method == "POST" else route.continue_(),
    )
    await page.get_by_role("link", name="Tenants").click()
    await page.get_by_role("button", name="Create tenant").click()
    await page.get_by_label("Name", exact=True).fill("acme")
    await page.get_by_label("Reason").fill("order 17")
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    dialog = page.get_by_role("dialog", name="Show your second factor")
    await dialog.get_by_role("button", name="No authenticator yet?").click()
    secret = await dialog.locator("code").inner_text()
    assert await watched.axe() == []
    await dialog.get_by_label("Code").fill(TOTP(secret).now())
    await dialog.get_by_role("button", name="Go on").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("dialog", name="Create")).to_be_hidden()
    await expect(page).to_have_url(re.compile("/console/tenants/acme"))
    assert asked[-1]["idempotency-key"] == asked[0]["idempotency-key"]
