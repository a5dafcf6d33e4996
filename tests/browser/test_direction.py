"""Which way an answer, a question and the text field run."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.flagged_answers import history
from tests.browser.markdown_pieces import shown_in_pieces
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TABLE = '<div class="table" tabindex="0" role="group" aria-label="Table" dir="rtl"><table>'
LETTERS = {
    "word": "ltr",
    "123 … 4": None,
    "1. שלום word": "rtl",
    "«مرحبا»": "rtl",
    "123 Ελλάδα": "ltr",
    "中文 שלום": "ltr",
    "\u200f123": "rtl",
    "\u200e123 שלום": "ltr",
    "𞤀𞤣𞤤𞤢𞤥": "rtl",
    "": None,
}
BLOCKS = {
    "# שלום\n\nword\n\n12": '<h3 class="level-1" dir="rtl">שלום</h3><p>word</p><p>12</p>',
    "שלום\n\n12": '<p dir="rtl">שלום</p><p dir="rtl">12</p>',
    "`word` שלום": '<p dir="rtl"><code dir="ltr">word</code> שלום</p>',
    "- 1\n- שלום\n- word `x`\n  - word\n  - 2": '<ul dir="rtl"><li>1</li><li>שלום</li><li>'
    '<div class="turned" dir="ltr">word <code>x</code></div><ul><li>'
    '<div class="turned" dir="ltr">word</div></li><li>2</li></ul></li></ul>',
    "1. word\n\n2. שלום": '<ol><li><p>word</p></li><li><p dir="rtl">שלום</p></li></ol>',
    "> שלום\n>\n> word": '<blockquote dir="rtl"><p>שלום</p><p dir="ltr">word</p></blockquote>',
    "|1|שלום|\n|-|-|\n|word|2|": f'{TABLE}<thead><tr><th class="short">1</th>'
    '<th class="short">שלום</th></tr></thead>'
    '<tbody><tr><td class="short" dir="ltr">word</td><td class="short">2</td></tr></tbody></table></div>',
}


async def test_the_first_strong_letter_tells(blank: WatchedPage):
    """Numbers and signs tell nothing."""
    find = """async (texts) => {
      const { directionOf } = await import("/web/direction.js");
      return texts.map(directionOf);
    }"""
    assert await blank.page.evaluate(find, list(LETTERS)) == list(LETTERS.values())


@pytest.mark.parametrize("text", BLOCKS)
async def test_each_block_has_its_own(blank: WatchedPage, text: str):
    """Code gives none; an item keeps its list's side; what has no letter runs as the block before it."""
    assert await shown_in_pieces(blank, [text], [100, 1]) == [[BLOCKS[text]] * 2]


async def test_a_formula_gives_none(open_page: OpenPage, peer: Peer):
    """Nor does its source."""
    watched = await history(open_page, peer, "$xyz$ הוא")
    await expect(watched.page.locator(".prose > p")).to_have_attribute("dir", "rtl")
    await expect(watched.page.locator(".formula")).to_have_attribute("dir", "ltr")


EDGES = """() => Object.fromEntries(["li", "li .turned", "blockquote p", "td", "td[dir]"].map((name) => {
  const element = document.querySelector(`.prose ${name}`);
  const range = document.createRange();
  range.selectNodeContents(element);
  const prose = document.querySelector(".prose").getBoundingClientRect();
  const words = range.getBoundingClientRect();
  return [name, words.left - prose.left > prose.right - words.right];
}))"""


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_lists_quotes_and_tables_are_mirrored(open_page: OpenPage, peer: Peer, width: int, scheme: str):
    """Their words stand at the right, also those of an item that runs the other way; nothing bars anybody."""
    text = "- א\n- b\n\n> א\n\n|א|\n|-|\n|a|\n\n$$x$$\n\n[EMAIL_1] א `b` $y$"
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    watched = await history(open_page, peer, text, **options)
    await expect(watched.page.locator(".formula math")).to_have_count(2)
    at_the_right: dict[str, bool] = await watched.page.evaluate(EDGES)
    assert all(at_the_right.values()), at_the_right
    assert await watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert await watched.axe() == []
    assert watched.errors == []


async def test_what_is_typed_and_asked_runs_its_own_way(open_page: OpenPage, peer: Peer):
    """The text field follows its first letter, and is as it was when it is empty."""
    watched, _ = await opened(open_page, peer)
    field = watched.page.get_by_label("Message", exact=True)
    await field.fill("12 שלום")
    await expect(field).to_have_attribute("dir", "rtl")
    await field.fill("12")
    await expect(field).not_to_have_attribute("dir", "rtl")
    await write(watched.page, "שלום word")
    await expect(watched.page.locator(".bubble")).to_have_attribute("dir", "rtl")
    await expect(field).not_to_have_attribute("dir", "rtl")
