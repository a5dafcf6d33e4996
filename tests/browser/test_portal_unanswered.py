"""The portal's pages while nobody answers, in a browser: the last figures stay and say of when they are, what
could not be read says so and is asked again, no page is blank."""

import re

import pytest
from playwright.async_api import Page, expect

from core.operations import Role
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.portal_sample import PHONE, WIDE, PortalOfAcme
from tests.browser.portal_sample import acme as acme  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

AWAY = "No answer: Parley cannot be reached now."
STAFFS = re.compile(r"console|\bparley [a-z]+|localhost|127\.0\.0\.1")  # words that tenants cannot act on
API = "**/api/**"
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


async def titles(page: Page) -> list[str]:
    """The pages of the sidebar."""
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    await expect(links.first).to_be_visible()
    return await links.all_inner_texts()


async def open_by_link(page: Page, title: str) -> None:
    """A page of the sidebar."""
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(title.split()[0])


async def test_figures_stay_and_say_of_when_they_are(open_page: OpenPage, acme: PortalOfAcme):
    """On each page, in red, with a button; once somebody answers again they are fresh."""
    watched = await acme.opened(open_page, "", viewport=WIDE)
    page = watched.page
    old = page.get_by_role("status").filter(has_text=re.compile(r"Figures of \d\d:\d\d:\d\d, .* old\."))
    for title in await titles(page):
        await open_by_link(page, title)
        await page.wait_for_load_state("networkidle")
        await page.wait_for_timeout(2000)  # until then what was answered is fresh
        before = await page.get_by_role("table").count()
        await page.route(API, lambda route: route.abort())
        await page.evaluate("dispatchEvent(new Event('visibilitychange'))")  # as who comes back to the page
        await expect(old).to_be_visible()
        assert await page.get_by_role("table").count() == before, title
        assert not STAFFS.search(await page.locator("main").inner_text()), title
        await shot(page, f"unanswered-old-{title}")
        await page.unroute(API)
        await page.get_by_role("button", name="Try again").first.click()
        await expect(old).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_is_blank(open_page: OpenPage, acme: PortalOfAcme, scheme: str):
    """A page that is opened while nobody answers says what happened, in words for tenants, and is read once
    somebody answers."""
    watched = await acme.opened(open_page, "audit", viewport=WIDE, color_scheme=scheme)
    page = watched.page
    named = await titles(page)
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(4000)  # the files of all pages are there
    await page.route(API, lambda route: route.abort())
    told = page.get_by_role("alert").filter(has_text=AWAY)
    for title in named:
        if title == "Audit log":
            continue
        await open_by_link(page, title)
        await expect(told.first).to_be_visible()
        for width in (WIDE, PHONE):
            await page.set_viewport_size(width)
            await shot(page, f"unanswered-{title}-{width['width']}-{scheme}")
            assert not await page.evaluate(SIDEWAYS), (title, width)
        await page.set_viewport_size(WIDE)
        assert await watched.axe() == [], title
        assert not STAFFS.search(await page.locator("main").inner_text()), title
    await page.unroute(API)
    await told.first.get_by_role("button", name="Try again").click()
    await expect(told).to_have_count(0)


async def test_a_page_whose_file_is_not_there_waits_for_it(open_page: OpenPage, acme: PortalOfAcme):
    """It says so, and is shown once it comes."""
    watched = await acme.opened(open_page, "audit", Role.ADMIN, viewport=WIDE)
    page = watched.page
    await page.route("**/*", lambda route: route.abort())
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Members").click()
    await expect(page.get_by_role("status").filter(has_text="takes long to answer")).to_be_visible()
    await page.unroute("**/*")
    await expect(page.get_by_role("heading", level=1, name="Members")).to_be_visible()


async def test_who_comes_while_nobody_answers_is_told(open_page: OpenPage, acme: PortalOfAcme):
    """And is let in as soon as somebody does."""
    watched = await acme.opened(open_page, "keys", viewport=WIDE)
    page = watched.page
    await page.route(API, lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_role("status")).to_contain_text("Parley does not answer.")
    assert not STAFFS.search(await page.locator("main").inner_text())
    await page.unroute(API)
    await expect(page.get_by_role("heading", level=1, name="Keys")).to_be_visible()
