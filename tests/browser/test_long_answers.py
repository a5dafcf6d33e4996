"""What readers do with code and long passages in an answer."""

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import history
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CODE = "```sh\n" + "parley " * 60 + "\n" + "x\n" * 80 + "```\n\n    " + "indented " * 60 + "\n\nThe end.\n"
TABLE = "| a | " + "b | " * 12 + "\n" + "|-" * 13 + "|\n" + f"| {'word ' * 20}" * 13 + "|\n"
EVERYTHING = "\n\n".join(
    [
        "## Start",
        "[link](https://a.example/) https://b.example/ **bold** *强调*",
        "> quote",
        "- [x] done[^1]",
        TABLE,
        CODE,
        "[^1]: a note",
        "|a|b|\n|-|-|\n" + "|c|d|\n" * 6000,
    ]
)


async def test_long_lines_wrap_where_that_was_chosen(open_page: OpenPage, peer: Peer):
    """For all code at once, and after a reload. The head of long code stays in sight with its buttons."""
    watched = await history(open_page, peer, CODE)
    page = watched.page
    wrap = page.locator(".wrap-code")
    widths = "(all) => all.map((pre) => pre.scrollWidth > pre.clientWidth)"
    await expect(wrap).to_have_count(2)
    assert await page.locator(".code pre").evaluate_all(widths) == [True, True]
    await page.locator(".code").first.evaluate("(code) => code.scrollIntoView({ block: 'end' })")
    await expect(wrap.first).to_be_in_viewport()
    await wrap.first.click()
    assert await page.locator(".code pre").evaluate_all(widths) == [False, False]
    await page.reload()
    await expect(wrap).to_have_count(2)
    for button in await wrap.all():
        await expect(button).to_have_attribute("aria-pressed", "true")
    assert await page.locator(".code pre").evaluate_all(widths) == [False, False]


@pytest.mark.parametrize("options", [{}, PHONE | {"color_scheme": "dark"}])
async def test_everything_that_an_answer_may_hold_is_accessible(
    open_page: OpenPage, peer: Peer, options: dict[str, object]
):
    """And what is too wide scrolls in its own frame."""
    watched = await history(open_page, peer, EVERYTHING, **options)
    page = watched.page
    await expect(page.get_by_role("button", name="Show formatted")).to_be_visible()
    assert await watched.axe() == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.locator("#scroller").evaluate("(all) => all.scrollWidth <= all.clientWidth")
    assert watched.errors == []


async def test_a_mark_leads_to_its_note_and_the_note_back(open_page: OpenPage, peer: Peer):
    """By the keyboard too; the address of the page stays."""
    watched = await history(open_page, peer, "See[^a] and[^a].\n\n" + "line\n\n" * 80 + "[^a]: What it says.")
    page = watched.page
    address = page.url
    await page.get_by_role("button", name="Note 1", exact=True).last.press("Enter")
    await expect(page.get_by_text("What it says.")).to_be_in_viewport()
    await expect(page.get_by_role("button", name="Back to where note 1 belongs")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Note 1", exact=True).first).to_be_focused()
    await expect(page.get_by_role("button", name="Note 1", exact=True).first).to_be_in_viewport()
    assert page.url == address
