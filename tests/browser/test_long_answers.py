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
SIGNED = 'if (who != "user\u202e \u2066// Check\u2069 \u2066") {'
SIGNS = f"```js\n{SIGNED}\n```\n\nand `a\u202eb`."
EVERYTHING = "\n\n".join(
    [
        "## Start",
        "[link](https://a.example/) https://b.example/ **bold** *强调*",
        "> quote",
        "- [x] done[^1]",
        TABLE,
        CODE,
        "[^1]: a note",
        SIGNS,
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


async def test_signs_that_turn_code_round_are_seen(open_page: OpenPage, peer: Peer):
    """By their numbers, and a note says so; what is copied has the signs, of long code too."""
    long = "x\n" * 600
    text = f"{SIGNS}\n\n```c\n{long}\u2067y\n```\n\n```py\nx\n```"
    watched = await history(open_page, peer, text, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    code = page.locator(".code")
    shown = 'if (who != "userU+202E U+2066// CheckU+2069 U+2066") {'
    assert await code.first.locator("pre").inner_text() == shown
    assert await page.locator(".prose p code").inner_text() == "aU+202Eb"
    await expect(page.get_by_role("img", name="U+202E, right-to-left override")).to_have_count(2)
    await expect(page.locator(".code-note")).to_have_count(2)
    read = "navigator.clipboard.readText()"
    await page.get_by_role("button", name="Copy js code").click()
    await expect(page.get_by_role("button", name="Copy js code")).to_have_text("Copied")
    assert await page.evaluate(read) == SIGNED
    for name, copied in (("js", SIGNED), ("c", f"{long}\u2067y")):
        await page.evaluate(
            "(at) => getSelection().selectAllChildren(document.querySelectorAll('pre code')[at])",
            0 if name == "js" else 1,
        )
        await page.keyboard.press("Control+C")
        assert await page.evaluate(read) == copied
    assert watched.errors == []


async def test_long_code_is_copied_as_it_is(open_page: OpenPage, peer: Peer):
    """By its button and by a selection, though it is drawn in parts."""
    lines = "".join(f"{'x' * (i % 90)}\n" * (1 + i % 3) for i in range(400)) + "the end"
    text = f"```c\n{lines}\n```"
    watched = await history(open_page, peer, text, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    await expect(page.locator(".code .part").nth(2)).to_be_attached()
    await page.get_by_role("button", name="Copy c code").click()
    await expect(page.get_by_role("button", name="Copy c code")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == lines
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('pre code'))")
    await page.keyboard.press("Control+C")
    assert await page.evaluate("navigator.clipboard.readText()") == lines
