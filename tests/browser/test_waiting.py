"""What is written while it cannot be sent waits where it was typed, and the composer keeps its height."""

import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.chat_page import PHONE, note, opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.scripted_peer import Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SMALL: dict[str, Any] = PHONE | {"viewport": {"width": 320, "height": 640}}
SIZES: dict[str, dict[str, Any]] = {"desk": {"viewport": {"width": 1200, "height": 800}}, "phone": PHONE}
CHAT = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
OTHER = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d02"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def field(page: Page) -> Locator:
    """Where one writes."""
    return page.get_by_label("Message", exact=True)


def press(page: Page, name: str) -> Locator:
    """A button."""
    return page.get_by_role("button", name=name, exact=True)


def later(page: Page) -> Locator:
    """The button that sends once the answer has ended: shorter words on a phone."""
    return page.get_by_role("button", name=re.compile(r"^Send (when it has ended|at its end)$"))


async def opened_over_a_line(open_page: OpenPage, peer: Peer, **options: Any) -> tuple[WatchedPage, Socket]:
    """The page, at an address that is not said to be on this machine."""
    watched = await open_page(peer.url.replace("127.0.0.1", "page.localhost"), **options)
    socket = await peer.socket()
    await socket.welcome()
    await expect(watched.page.get_by_label("Model")).to_be_visible()
    return watched, socket


async def answering(page: Page, socket: Socket) -> str:
    """An answer runs."""
    await write(page, "Plan a weekend in Lisbon")
    id = await socket.accept()
    await socket.delta("Saturday.", 1)
    await expect(page.locator(".prose").last).to_have_text("Saturday.")
    return id


async def frame_height(page: Page) -> float:
    """Of the composer."""
    box = await page.locator("#composer").bounding_box()
    assert box
    return box["height"]


async def test_enter_while_an_answer_runs_waits_for_its_end(open_page: OpenPage, peer: Peer):
    """In the field, dashed, once; then it goes out by itself, and what is written behind it stays a draft.
    Taken back it is a draft, and goes by hand."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await answering(page, socket)
    await write(page, "Leave out museums")
    await expect(page.locator("#waits")).to_have_text("Sends when it has ended")
    await expect(page.locator("#announcer")).to_have_text("Sends when it has ended")
    await expect(field(page)).to_have_value("Leave out museums")
    assert (
        await page.locator("#composer").evaluate("(form) => getComputedStyle(form).borderStyle") == "dashed"
    )
    await press(page, "Take back").click()
    await expect(field(page)).to_be_editable()
    await field(page).press_sequentially("!")
    await later(page).click()
    await expect(page.locator("#waits")).to_be_visible()
    await field(page).press_sequentially(" And churches")
    await socket.end("Saturday.", 2)
    send = await socket.hear("send")
    assert send["content"] == "Leave out museums!"
    await expect(field(page)).to_have_value("And churches")
    await expect(page.locator(".bubble").last).to_have_text("Leave out museums!")
    assert [frame["t"] for frame in socket.log].count("send") == 2
    assert watched.errors == []


async def test_what_waits_and_is_changed_is_a_draft_again(open_page: OpenPage, peer: Peer):
    """It is another text now: its writer sends it."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await answering(page, socket)
    await write(page, "Leave out museums")
    await expect(page.locator("#waits")).to_be_visible()
    await page.keyboard.press("Backspace")
    await expect(page.locator("#waits")).to_be_hidden()
    await expect(page.locator("#announcer")).to_have_text("What you wrote is a draft again.")
    await expect(field(page)).to_have_value("Leave out museum")
    assert watched.errors == []


@pytest.mark.parametrize("way", ["Escape", "button", "phone"])
async def test_a_stop_sends_nothing(open_page: OpenPage, peer: Peer, way: str):
    """What waits is a draft again; who wants it sent has a button that says so."""
    watched, socket = await opened(open_page, peer, **(PHONE if way == "phone" else {}))
    page = watched.page
    id = await answering(page, socket)
    await field(page).fill("Leave out museums")
    await later(page).click()
    await expect(page.locator("#waits")).to_be_visible()
    await (page.keyboard.press("Escape") if way == "Escape" else press(page, "Stop").click())
    assert (await socket.hear("cancel"))["id"] == id
    await expect(page.locator("#waits")).to_be_hidden()
    await socket.end("Saturday.", 2, reason="cancelled")
    await expect(press(page, "Send")).to_be_enabled()
    await expect(field(page)).to_have_value("Leave out museums")
    await socket.tell("ping", ts=1)
    await socket.hear("pong")
    assert [frame["t"] for frame in socket.log].count("send") == 1
    assert watched.errors == []


@pytest.mark.parametrize("waits", [False, True])
async def test_stop_and_send(open_page: OpenPage, peer: Peer, waits: bool):
    """The answer is stopped, and when it has ended the text goes out."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    id = await answering(page, socket)
    await field(page).fill("Leave out museums")
    if waits:
        await field(page).press("Enter")
    await press(page, "Stop and send").click()
    assert (await socket.hear("cancel"))["id"] == id
    await socket.end("Saturday.", 2, reason="cancelled")
    assert (await socket.hear("send"))["content"] == "Leave out museums"
    assert watched.errors == []


@pytest.mark.parametrize("end", ["error", "blocked", "failed", "reload"])
async def test_what_waits_is_a_draft_after_trouble(open_page: OpenPage, peer: Peer, end: str):
    """An answer that broke off, that a policy ended, that is lost; a reload: nothing goes out unasked."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    id = await answering(page, socket)
    await write(page, "Leave out museums")
    await expect(page.locator("#waits")).to_be_visible()
    if end == "failed":
        peer.cut()
        socket = await peer.socket()
        gone = {"id": id, "state": "gone", "why": "log_lost"}
        await socket.welcome(requests=[gone])
    elif end == "reload":
        await page.reload()
        socket = await peer.socket()
        await socket.welcome()
    else:
        await socket.end("Saturday.", 2, reason=end)
    await expect(page.locator("#waits")).to_be_hidden()
    await expect(field(page)).to_be_editable()
    await expect(field(page)).to_have_value("Leave out museums")
    await socket.tell("ping", ts=1)
    await socket.hear("pong")
    assert not [frame for frame in socket.log if frame.get("content") == "Leave out museums"]


async def test_it_goes_out_while_another_chat_is_open(open_page: OpenPage, peer: Peer):
    """Into the chat in which it was written; that is marked until then."""
    peer.conversations = [{"id": OTHER, "title": "Rainbows", "updated_ms": 0, "running": False}]
    peer.messages[OTHER] = []
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await answering(page, socket)
    chat = page.url.rsplit("/", 1)[1]
    await write(page, "Leave out museums")
    await page.get_by_role("link", name="Rainbows").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rainbows")
    await expect(field(page)).to_have_value("")
    await socket.end("Saturday.", 2)
    send = await socket.hear("send")
    assert (send["content"], send["conversation"]) == ("Leave out museums", chat)
    await expect(page.locator(".bubble")).to_have_count(0)
    await expect(page.locator("#conversations .draft")).to_have_count(1)
    await socket.tell("accepted", id=send["id"], g=2, epoch=1, dup=False, priority="bulk", queue=None)
    await expect(page.locator("#conversations .draft")).to_have_count(0)
    assert watched.errors == []


async def test_offline_it_waits_for_the_line(open_page: OpenPage, peer: Peer):
    """It is said that nothing is lost; back on line it is sent, by itself and once."""
    watched, socket = await opened_over_a_line(open_page, peer)
    page = watched.page
    await page.context.set_offline(True)
    said = "You are offline. What you type is kept and sent when the line is back."
    await expect(page.locator("#notice")).to_have_text(said)
    await write(page, "Does the ferry run?")
    await expect(page.locator("#waits")).to_have_text("Sends when you are online")
    await expect(press(page, "Stop and send")).to_be_hidden()
    await press(page, "Take back").click()
    await field(page).press("Enter")
    assert [frame for frame in socket.log if frame["t"] == "send"] == []
    await page.context.set_offline(False)
    assert (await socket.hear("send"))["content"] == "Does the ferry run?"
    await expect(page.locator("#notice")).to_be_hidden()
    await expect(page.locator(".bubble")).to_have_text("Does the ferry run?")


async def test_what_was_sent_as_the_line_went_waits_for_it(open_page: OpenPage, peer: Peer):
    """That is said at once, and as long as nobody took it no answer goes on; then one does."""
    watched, socket = await opened_over_a_line(open_page, peer)
    page = watched.page
    await write(page, "Does the ferry run?")
    send = await socket.hear("send")
    await page.context.set_offline(True)
    waits = "Your message waits and is sent when the line is back."
    await expect(page.locator("#notice")).to_have_text(f"You are offline. {waits}")
    await page.context.set_offline(False)
    await expect(page.locator("#notice")).to_be_hidden()
    await page.route("**/v1/tickets", lambda route: route.abort())
    peer.cut()
    await expect(page.locator("#notice")).to_contain_text(f"The connection was lost. {waits} Trying again")
    await page.unroute("**/v1/tickets")
    await page.locator("#notice-action").click()
    socket = await peer.socket()
    await socket.welcome()
    assert await socket.accept() == send["id"]
    await expect(page.get_by_text("Thinking…")).to_be_visible()
    await page.context.set_offline(True)
    await expect(page.locator("#notice")).to_have_text("You are offline. Your answer goes on meanwhile.")


async def test_another_tabs_answer_is_shown_and_the_text_kept(open_page: OpenPage, peer: Peer):
    """Where it came first: no clock is promised, the text is a draft that may wait for its end."""
    peer.conversations = [{"id": CHAT, "title": "Lisbon", "updated_ms": 0, "running": False}]
    peer.messages[CHAT] = []
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await write(page, "Leave out museums")
    send = await socket.hear("send")
    stored = {"request_id": OTHER, "reason": "", "code": "", "model": "m", "usage": None, "cost": None}
    peer.messages[CHAT] = [
        stored | {"id": "m1", "role": "user", "content": "Plan a weekend", "status": "ended"},
        stored | {"id": "m2", "role": "assistant", "content": "", "status": "running"},
    ]
    busy = {"code": "conversation_busy", "message": "x", "retry": True, "after_ms": 1000}
    await socket.tell("error", re="send", id=send["id"], **busy)
    assert (await socket.hear("attach"))["id"] == OTHER
    await expect(page.locator(".bubble")).to_have_text(["Plan a weekend"])
    await expect(field(page)).to_have_value("Leave out museums")
    await expect(page.locator("#not-sent")).to_contain_text("Not sent: an answer in this chat came first.")
    await expect(page.locator("#announcer")).not_to_contain_text("Try again in")
    assert await watched.axe() == []
    await socket.tell("attached", g=2, id=OTHER, epoch=1, **{"from": 1}, head=0, state="running")
    await socket.delta("Saturday.", 1, g=2)
    await expect(page.locator(".prose")).to_have_text("Saturday.")
    await later(page).click()
    await socket.end("Saturday.", 2, g=2)
    assert (await socket.hear("send"))["content"] == "Leave out museums"
    await expect(page.locator("#not-sent")).to_be_hidden()
    assert watched.errors == []


async def test_a_gateway_on_this_machine_needs_no_line(open_page: OpenPage, peer: Peer):
    """Where the browser says that it is offline, and the connection holds: what is written is sent."""
    watched, socket = await opened(open_page, peer, own=True)
    page = watched.page
    await page.evaluate("Object.defineProperty(navigator, 'onLine', { value: false })")
    await page.evaluate("void dispatchEvent(new Event('offline'))")
    await write(page, "Does the ferry run?")
    await socket.hear("send")
    await expect(page.locator("#notice")).to_be_hidden()


async def test_what_waits_for_a_limit_is_sent_when_it_is_over(open_page: OpenPage, peer: Peer):
    """Only if that was asked for; until then it can be taken back, or edited."""
    watched, socket = await opened(open_page, peer, own=True)
    page = watched.page
    await page.clock.install()
    await write(page, "Now in Polish")
    rate = {"scope": "user", "dimension": "requests_per_minute", "limit": 20, "after_ms": 8_000}
    facts = {"code": "rate_limited", "message": "x", "retry": True, "re": "send"} | rate
    await socket.tell("error", id=(await socket.hear("send"))["id"], **facts)
    words = "Your limit of 20 requests a minute is reached. Try again in 8 seconds."
    await expect(note(page).locator("p")).to_have_text(words)
    await expect(page.locator("#announcer")).to_have_text(words)
    await press(page, "Send when the wait is over").click()
    await press(page, "Take back").click()
    await press(page, "Send when the wait is over").click()
    await expect(note(page)).to_contain_text("Sends when the wait is over.")
    await page.clock.run_for(9_000)
    again = await socket.hear("send")
    assert again["content"] == "Now in Polish"
    await expect(page.locator(".bubble")).to_have_count(1)
    await socket.tell("error", id=again["id"], **facts)
    await press(page, "Edit").click()
    await expect(field(page)).to_have_value("Now in Polish")
    await expect(page.locator(".bubble")).to_have_count(0)
    assert watched.errors == []


async def test_characters_that_no_message_can_hold(open_page: OpenPage, peer: Peer):
    """They are left out or replaced, and that is said."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await field(page).evaluate("(area) => { area.value = 'a\\0b\\ud83dc \\u{1f600}'; }")
    await field(page).press("Enter")
    assert (await socket.hear("send"))["content"] == "ab\ufffdc 😀"
    await expect(page.locator("#not-sent p")).to_contain_text("2 characters that no message can hold")
    await expect(page.locator("#not-sent use")).to_have_attribute("href", "#icon-done")
    await expect(page.locator("#not-sent .choices")).to_be_hidden()
    await expect(page.locator(".bubble")).to_have_text("ab\ufffdc 😀")
    await field(page).evaluate("(area) => { area.value = '\\0'; }")
    await field(page).press("Enter")
    assert [frame["t"] for frame in socket.log].count("send") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_each_state_is_as_high_and_sound(open_page: OpenPage, peer: Peer, scheme: str, size: str):
    """Written, running, to be chosen, waiting, offline: axe finds nothing, the frame moves 0 px, a finger
    hits each button, nothing is cut off."""
    options = SIZES[size] | {"color_scheme": scheme, "reduced_motion": "reduce"}
    watched, socket = await opened_over_a_line(open_page, peer, **options)
    page = watched.page
    await field(page).fill("Leave out museums")
    height = await frame_height(page)
    await field(page).fill("")
    await answering(page, socket)
    assert await frame_height(page) == height
    await field(page).fill("Leave out museums")
    await sound(page, height, size)
    assert await watched.axe() == []
    await later(page).click()
    await sound(page, height, size)
    assert await watched.axe() == []
    await page.context.set_offline(True)
    await expect(page.locator("#waits")).to_have_text("Sends when you are online")
    await sound(page, height, size)
    assert await watched.axe() == []
    await page.context.set_offline(False)


async def sound(page: Page, height: float, size: str) -> None:
    """The composer's frame and buttons in one state."""
    assert await frame_height(page) == height
    assert await page.evaluate(OVERFLOW) == 0
    for control in await page.locator(".composer-foot :is(button, select):visible").all():
        box = await control.bounding_box()
        assert box
        assert size == "desk" or box["height"] >= 44
        assert await control.evaluate("(each) => each.scrollWidth <= each.clientWidth + 2")


async def test_nothing_is_cut_off_on_a_small_phone(open_page: OpenPage, peer: Peer):
    """320 px wide."""
    watched, socket = await opened(open_page, peer, **SMALL)
    page = watched.page
    await answering(page, socket)
    height = await frame_height(page)
    await field(page).fill("And?")
    await sound(page, height, "phone")
    await later(page).click()
    await sound(page, height, "phone")
    assert watched.errors == []
