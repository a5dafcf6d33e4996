"""What keys do while somebody writes: with an input method, by a finger, with something open in front."""

import pytest
from playwright.async_api import CDPSession, Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# As Safari has it: the composition has ended when its key comes.
SAFARI = """(field, key) => {
  field.dispatchEvent(new CompositionEvent("compositionend", { data: "日本", bubbles: true }));
  const init = { key, keyCode: 229, bubbles: true, cancelable: true };
  return field.dispatchEvent(new KeyboardEvent("keydown", init));
}"""


async def composing(page: Page, text: str) -> CDPSession:
    """An input method has `text` under way in the field."""
    await page.get_by_label("Message", exact=True).focus()
    protocol = await page.context.new_cdp_session(page)
    selected = {"selectionStart": len(text), "selectionEnd": len(text)}
    await protocol.send("Input.imeSetComposition", {"text": text, **selected})
    return protocol


async def heard_nothing(socket: Socket, t: str) -> None:
    """All that the page sent until now has come, and none of it is a `t`."""
    await socket.tell("ping", ts=1)
    await socket.hear("pong")
    assert [frame for frame in socket.log if frame["t"] == t] == []


async def test_enter_of_an_input_method_sends_nothing(open_page: OpenPage, peer: Peer):
    """It takes a word; the next Enter sends. So in Safari, where the composition is over by then."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    field = page.get_by_label("Message", exact=True)
    protocol = await composing(page, "にほん")
    await page.keyboard.press("Enter")
    assert await field.evaluate(SAFARI, "Enter")
    await heard_nothing(socket, "send")
    await protocol.send("Input.imeSetComposition", {"text": "", "selectionStart": 0, "selectionEnd": 0})
    await protocol.send("Input.insertText", {"text": "日本"})
    await page.keyboard.press("Enter")
    assert (await socket.hear("send"))["content"].startswith("日本")


async def test_escape_of_an_input_method_stops_nothing(open_page: OpenPage, peer: Peer):
    """It drops a word; the next Escape stops the answer."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Tell me a story")
    await socket.accept()
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    protocol = await composing(page, "にほん")
    await page.keyboard.press("Escape")
    await page.get_by_label("Message", exact=True).evaluate(SAFARI, "Escape")
    await heard_nothing(socket, "cancel")
    await protocol.send("Input.imeSetComposition", {"text": "", "selectionStart": 0, "selectionEnd": 0})
    await page.keyboard.press("Escape")
    await socket.hear("cancel")


async def test_escape_in_a_dialog_stops_nothing(open_page: OpenPage, peer: Peer):
    """It closes what is in front."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Tell me a story")
    await socket.accept()
    await page.get_by_role("button", name="Browsers").click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Signed-in browsers")).to_be_hidden()
    await heard_nothing(socket, "cancel")


async def test_return_makes_a_line_where_a_finger_writes(open_page: OpenPage, peer: Peer):
    """The button sends; what is said below the field is so."""
    watched, socket = await opened(open_page, peer, **PHONE)
    page = watched.page
    await expect(page.locator("#hint")).to_have_text("Return starts a new line")
    field = page.get_by_label("Message", exact=True)
    await field.fill("one")
    await field.press("Enter")
    await page.keyboard.type("two")
    await heard_nothing(socket, "send")
    await page.get_by_role("button", name="Send", exact=True).click()
    assert (await socket.hear("send"))["content"] == "one\ntwo"
    assert watched.errors == []


async def test_the_hint_of_a_keyboard(open_page: OpenPage, peer: Peer):
    """Where a mouse hovers, Enter sends."""
    watched, _ = await opened(open_page, peer)
    await expect(watched.page.locator("#hint")).to_have_text("Enter sends, Shift+Enter starts a new line")
