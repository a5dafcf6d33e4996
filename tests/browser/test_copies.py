"""What a selection puts on the clipboard is text, not what the page says beside it; wide things stay put."""

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import history
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
WIDE = "+".join(f"a_{{{n}}}" for n in range(40))


async def test_a_selected_answer_is_copied_without_the_pages_words(open_page: OpenPage, peer: Peer):
    """No label, button or cost, over several messages too; a cost that alone is selected is what is meant."""
    text = "So:\n\n```js\nlet x;\n```\n\nIt is `x`."
    watched = await history(open_page, peer, text, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    copied: list[str] = []
    for selected in (".answer", "#log", ".facts"):
        await page.evaluate("(of) => getSelection().selectAllChildren(document.querySelector(of))", selected)
        await page.keyboard.press("Control+C")
        copied.append(await page.evaluate("navigator.clipboard.readText()"))
    answer = ["So:", "let x;", "It is x."]
    lines = [[line for line in each.split("\n") if line] for each in copied]
    assert lines == [answer, ["Who?", *answer], ["49 tokens (37 in, 12 out)"]]
    assert watched.errors == []


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("before", ["Very long: ", "- item ", "> ", "1. a\n\n   so "])
async def test_a_wide_formula_scrolls_only_itself(
    open_page: OpenPage, peer: Peer, before: str, options: dict[str, bool]
):
    """Behind words and in an item, too: nothing else of the page moves sideways."""
    watched = await history(open_page, peer, f"{before}$${WIDE}$$", **options)
    page = watched.page
    await expect(page.locator(".formula math")).to_be_visible()
    assert await page.locator("#scroller").evaluate("(each) => each.scrollWidth - each.clientWidth") == 0
    assert await page.locator(".formula").evaluate("(each) => each.scrollWidth > each.clientWidth")


async def test_the_messages_are_one_step_from_the_top(open_page: OpenPage, peer: Peer):
    """Past the chats, by a link that shows once it has the focus."""
    watched = await history(open_page, peer, "Yes.")
    page = watched.page
    await page.locator("#new-chat").focus()
    await page.keyboard.press("Shift+Tab")
    skip = page.get_by_role("button", name="Skip to the messages")
    await expect(skip).to_be_focused()
    assert await watched.axe() == []
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Messages")).to_be_focused()


async def test_a_footnotes_mark_is_hit_by_a_finger(open_page: OpenPage, peer: Peer):
    """44 px wide and high around it, which moves no line."""
    watched = await history(open_page, peer, "One.\n\nTea[^1] is old.\n\nTwo.\n\n[^1]: Very.", **PHONE)
    mark = watched.page.locator(".note-mark").first
    hit = """(mark, [x, y]) => { const { left, right, top, bottom } = mark.getBoundingClientRect();
      return document.elementFromPoint((left + right) / 2 + x, (top + bottom) / 2 + y) === mark; }"""
    for place in ([-21, 0], [21, 0], [0, -21], [0, 21]):
        assert await mark.evaluate(hit, place), place
