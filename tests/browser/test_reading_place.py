"""What a reader looks at stays where it is while something above it changes."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import history
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PARAGRAPHS = [f"Paragraph {at}. " + "word " * 60 for at in range(30)]
ITEMS = "\n".join(f"- item {at} " + "word " * 40 for at in range(30))
TEXT = "\n\n".join([*PARAGRAPHS, ITEMS, *PARAGRAPHS])
FIRST = "document.querySelector('.log').firstChild"
CHANGES = {
    "a block grows": "third.style.paddingBottom = '254px'",
    "a block shrinks": "third.textContent = 'short'",
    "a block is made anew": "third.replaceWith(document.createElement('hr'))",
    "a question comes": f"{FIRST}.before({FIRST}.cloneNode(true))",
}
CHANGED = "([third], code) => new Function('third', code)(third)"
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def top_of(page: Page, text: str) -> float:
    """Where an element is on the screen, two frames from now."""
    await page.evaluate(TWO_FRAMES)
    return await page.get_by_text(text).first.evaluate("(found) => found.getBoundingClientRect().top")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("seen", ["Paragraph 20.", "item 20"])
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_moves_that_is_looked_at(
    open_page: OpenPage, peer: Peer, change: str, seen: str, options: dict[str, object]
):
    """0 px, also within a list, in browsers without scroll anchoring: the page uses none."""
    page = (await history(open_page, peer, TEXT, **options)).page
    await expect(page.locator(".prose li")).to_have_count(30)
    await page.get_by_text(seen).first.evaluate(
        "(found) => { found.scrollIntoView(); document.querySelector('#scroller').scrollTop += 9; }"
    )
    before = await top_of(page, seen)
    height = await page.locator("#log").evaluate("(log) => log.offsetHeight")
    await page.locator(".prose > :nth-child(3)").evaluate_all(CHANGED, CHANGES[change])
    assert abs(await top_of(page, seen) - before) < 1
    assert await page.locator("#log").evaluate("(log) => log.offsetHeight") != height


async def test_who_reads_the_end_goes_along(open_page: OpenPage, peer: Peer):
    """And who scrolled on after a change is not thrown back."""
    page = (await history(open_page, peer, TEXT)).page
    left = "(s) => s.scrollHeight - s.scrollTop - s.clientHeight"
    scroller = page.locator("#scroller")
    await page.evaluate("document.querySelector('.prose').lastElementChild.style.paddingBottom = '254px'")
    await top_of(page, "item 20")
    assert await scroller.evaluate(left) < 2
    await scroller.evaluate("(s) => { s.scrollTop = 900; }")
    await top_of(page, "item 20")
    await page.evaluate("document.querySelector('.prose').children[0].style.paddingBottom = '100px'")
    await top_of(page, "item 20")
    assert await scroller.evaluate("(s) => s.scrollTop") == 1000


async def test_text_that_comes_before_a_scroll_is_told_ends_no_following(open_page: OpenPage, peer: Peer):
    """The page goes to its end, and more comes in the same frame: that is nobody's scrolling up."""
    page = (await history(open_page, peer, TEXT)).page
    await page.evaluate("""() => {
      const scroller = document.querySelector("#scroller");
      document.querySelector(".prose").lastElementChild.style.paddingBottom = "254px";
      scroller.dispatchEvent(new Event("scroll"));
    }""")
    await top_of(page, "item 20")
    assert (
        await page.locator("#scroller").evaluate("(s) => s.scrollHeight - s.scrollTop - s.clientHeight") < 2
    )
