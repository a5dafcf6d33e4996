"""The composer takes text before the page's modules are there, and what was sent early is sent, once."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
SAID = "Still loading. Write on; it is sent as soon as it can be."
MODULES = r"/assets/index-.*\.js$"
PRESS = """(prompt, init) => prompt.dispatchEvent(
  new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...init }))"""


class HeldModules:
    """The page's modules, until the test lets them come."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    async def answer(self, route: Route) -> None:
        """The server."""
        if re.search(MODULES, route.request.url):
            await self.let.wait()
        await route.continue_()


def message(page: Page) -> Locator:
    """Where one writes."""
    return page.get_by_label("Message", exact=True)


@pytest.mark.parametrize("way", ["Enter", "click"])
async def test_what_was_sent_early_is_sent_once(open_page: OpenPage, peer: Peer, way: str):
    """As it was when it was sent; what was written on stays in the field, and the composer has not moved."""
    held = HeldModules()
    watched = await open_page(f"{peer.url}/", answer=held.answer, loaded=False)
    page = watched.page
    await expect(message(page)).to_be_focused()
    box = await page.locator("#composer").bounding_box()
    await page.keyboard.press("Enter")
    await page.keyboard.type("How do rainbows form?")
    await expect(page.locator("#notice")).to_be_hidden()
    if way == "click":
        await page.get_by_role("button", name="Send").click()
        await message(page).focus()
    else:
        await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").filter(has_text=SAID)).to_be_visible()
    assert await watched.axe() == []
    await page.keyboard.type(" And snow?")
    held.let.set()
    socket = await peer.socket()
    assert await page.locator("#composer").bounding_box() == box
    await socket.welcome()
    assert (await socket.hear("send"))["content"] == "How do rainbows form?"
    await expect(message(page)).to_have_value("And snow?")
    await expect(page.locator("#notice")).to_be_hidden()
    await expect(page.get_by_text("How do rainbows form?", exact=True).first).to_be_visible()
    assert [frame["t"] for frame in socket.log].count("send") == 1
    assert (watched.errors, watched.strangers) == ([], [])


async def test_what_is_written_after_an_early_enter_stays(open_page: OpenPage, peer: Peer):
    """Also while the page is there and its connection is not: each letter comes into the field, and none goes
    out with what was sent; the cursor stays where it was, before the draft of another time."""
    page = (await open_page(peer.url.replace("127.0.0.1", "page.localhost"))).page
    await (await peer.socket()).welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    await message(page).fill("An older draft")
    held = HeldModules()
    await page.route("**/*", held.answer)
    await page.reload(wait_until="commit")
    await message(page).press_sequentially("What is tea?")
    await message(page).press("Enter")
    await page.keyboard.type(" And wh")
    held.let.set()
    socket = await peer.socket()
    await expect(page.locator("#notice")).to_contain_text("The server cannot be reached yet.")
    await page.keyboard.type("at is co")
    await socket.welcome()
    assert (await socket.hear("send"))["content"] == "What is tea?"
    await expect(page.get_by_text("What is tea?", exact=True).first).to_be_visible()
    await page.keyboard.type("ffee?")
    await expect(message(page)).to_have_value("And what is coffee?\n\nAn older draft")


async def test_what_was_sent_early_leaves_the_draft(open_page: OpenPage, peer: Peer):
    """The draft of another time stands in the field once the early text has gone out."""
    page = (await open_page(f"{peer.url}/")).page
    await (await peer.socket()).welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    await message(page).fill("An older draft")
    held = HeldModules()
    await page.route("**/*", held.answer)
    await page.reload(wait_until="commit")
    await message(page).fill("How do rainbows form?")
    await message(page).press("Enter")
    await page.keyboard.type(" And snow?")
    held.let.set()
    socket = await peer.socket()
    await socket.welcome()
    assert (await socket.hear("send"))["content"] == "How do rainbows form?"
    await expect(message(page)).to_have_value("And snow?\n\nAn older draft")


async def test_what_was_changed_after_it_was_sent_waits_for_its_writer(open_page: OpenPage, peer: Peer):
    """It is another text now: it is not sent, and not lost."""
    held = HeldModules()
    page = (await open_page(f"{peer.url}/", answer=held.answer, loaded=False)).page
    await message(page).fill("Transfer all")
    await message(page).press("Enter")
    await message(page).fill("Transfer nothing")
    held.let.set()
    socket = await peer.socket()
    await socket.welcome()
    await expect(page.locator("body")).to_have_attribute("data-view", "chat")
    await expect(page.get_by_label("Model")).to_be_visible()
    await message(page).press("Enter")
    assert (await socket.hear("send"))["content"] == "Transfer nothing"


@pytest.mark.parametrize("path", ["/", "/#c=c0de"])
async def test_text_outlives_a_sign_in_unsent(open_page: OpenPage, peer: Peer, path: str):
    """By a pasted key, or by a link that makes another reader of one who was signed in: they decide whether
    it is sent, for it was written before it was clear as whom."""
    peer.signed_in = path != "/"
    held = HeldModules()
    page = (await open_page(f"{peer.url}{path}", answer=held.answer, loaded=False)).page
    await message(page).fill("For whom?")
    await message(page).press("Enter")
    held.let.set()
    if path == "/":
        await expect(message(page)).to_be_hidden()
        await page.get_by_label("API key").fill("pk_good")
        await page.keyboard.press("Enter")
    else:
        await page.get_by_role("button", name="Sign in as another").click()
    socket = await peer.socket()
    await socket.welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    await expect(message(page)).to_have_value("For whom?")
    await message(page).press("Enter")
    assert (await socket.hear("send"))["content"] == "For whom?"
    assert [frame["t"] for frame in socket.log].count("send") == 1


async def test_a_link_that_signs_in_sends_what_was_sent_early(open_page: OpenPage, peer: Peer):
    """Nobody else was signed in: who opened it wrote as whom it is for."""
    peer.signed_in = False
    held = HeldModules()
    page = (await open_page(f"{peer.url}/#c=c0de", answer=held.answer, loaded=False)).page
    await message(page).fill("Hello")
    await message(page).press("Enter")
    held.let.set()
    socket = await peer.socket()
    await socket.welcome()
    assert (await socket.hear("send"))["content"] == "Hello"
    await expect(message(page)).to_have_value("")


async def test_modules_that_do_not_come_are_said(open_page: OpenPage, peer: Peer):
    """As a line that breaks, or a gateway of another version, leaves them: no promise, and a way on."""

    async def none(route: Route) -> None:
        missing = re.search(MODULES, route.request.url) is not None
        await (route.fulfill(status=404) if missing else route.continue_())

    page = (await open_page(f"{peer.url}/", answer=none)).page
    said = page.get_by_role("status").filter(has_text="This page could not be loaded.")
    await expect(said).to_be_visible()
    await message(page).fill("Hello")
    await message(page).press("Enter")
    await expect(said).to_be_visible()
    await expect(message(page)).to_have_value("Hello")
    await page.context.unroute_all()
    await said.get_by_role("button", name="Reload").click()
    await (await peer.socket()).welcome()


@pytest.mark.parametrize(
    ("enter", "options"),
    [({"isComposing": True}, {}), ({"keyCode": 229}, {}), ({"shiftKey": True}, {}), ({}, PHONE)],
)
async def test_an_enter_that_sends_nothing_later_sends_nothing_early(
    open_page: OpenPage, peer: Peer, enter: dict[str, Any], options: dict[str, Any]
):
    """One of an input method (Safari's comes when it has ended, as key 229); one for a new line."""
    held = HeldModules()
    page = (await open_page(f"{peer.url}/", answer=held.answer, loaded=False, **options)).page
    await message(page).fill("text")
    await message(page).evaluate(PRESS, enter)
    assert await page.evaluate("document.body.dataset.asked") is None
    held.let.set()
    await peer.socket()
