"""What the chat page says while an answer waits, and what becomes of text that is taken back."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MOVED = "Moved to another worker. Continuing in a moment…"


async def asked(page: Page, socket: Socket) -> str:
    """A question whose answer has begun."""
    await write(page, "How do rainbows form?")
    id = await socket.accept()
    await socket.delta("They need", 1)
    await expect(page.locator(".prose")).to_have_text("They need")
    return id


async def test_what_holds_an_answer_up_is_said_in_words(open_page: OpenPage, peer: Peer):
    """Paused, moved, parked and resumed are told beside the text, and go when it goes on."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await asked(page, socket)
    state = page.locator(".state")
    await expect(state).to_be_hidden()
    await socket.tell("event", g=1, k="paused")
    await expect(state).to_have_text("Paused: this device is slow to read")
    await socket.tell("event", g=1, k="unpaused")
    await expect(state).to_be_hidden()
    for o, why, said in [
        (2, "drain", MOVED),
        (3, "lost", "Its worker failed. Another one takes over…"),
        (4, "preempt", "Something more urgent came first. Continuing in a moment…"),
        (5, "pool", MOVED),
    ]:
        await socket.tell("event", g=1, o=o, k="moved", v={"why": why})
        await expect(state).to_have_text(said)
    await socket.tell("event", g=1, o=6, k="parked")
    await expect(state).to_have_text("Waiting: nobody was reading. Continuing now…")
    await socket.tell("event", g=1, o=7, k="resumed")
    await expect(state).to_have_text("Continuing in a moment…")
    await socket.delta(" sun and rain.", 8, p=9)
    await expect(state).to_be_hidden()
    await expect(page.locator(".prose")).to_have_text("They need sun and rain.")
    await socket.end("They need sun and rain.", 9)
    await expect(page.get_by_text("49 tokens")).to_be_visible()
    await expect(state).to_be_hidden()
    assert watched.errors == []


async def test_a_lost_connection_is_said_with_the_answer_too(open_page: OpenPage, peer: Peer):
    """While the notice stands, the answer on its way says that it waits for the connection."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await page.evaluate("void (Math.random = () => 1)")  # the longest wait
    id = await asked(page, socket)
    for _ in range(2):
        peer.cut()
        socket = await peer.socket()
    peer.cut()
    await expect(page.locator(".state")).to_have_text("Reconnecting…")
    await page.get_by_role("button", name="Try now").click()
    socket = await peer.socket()
    listed = {"id": id, "g": 1, "epoch": 1, "from": 2, "head": 2, "state": "running"}
    await socket.welcome(requests=[listed], resumed="full")
    await expect(page.locator(".state")).to_be_hidden()


async def test_a_handover_is_not_seen(open_page: OpenPage, peer: Peer):
    """A server that goes away changes nothing on the page: no notice, no state, the text goes on."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    id = await asked(page, socket)
    await page.evaluate(
        """() => {
          window.seen = [];
          const notice = document.getElementById("notice");
          const look = () => seen.push(notice.hidden, document.querySelector(".state").textContent);
          const everything = { subtree: true, childList: true, attributes: true };
          new MutationObserver(look).observe(document.body, everything);
        }"""
    )
    await socket.tell("go_away", why="drain", in_ms=5000)
    second = await peer.socket()
    listed = {"id": id, "g": 1, "epoch": 1, "from": 2, "head": 2, "state": "running"}
    await second.welcome(requests=[listed], resumed="full")
    await second.delta(" sun and rain.", 2, p=9)
    await expect(page.locator(".prose")).to_have_text("They need sun and rain.")
    await socket.closed.wait()
    assert set(await page.evaluate("seen")) == {True, ""}


async def test_text_that_is_taken_back_goes_from_the_page(open_page: OpenPage, peer: Peer):
    """After a retract nothing of the vetoed text is left, also where it was rendered; the rest is shown."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "How?")
    await socket.accept()
    kept, vetoed = (
        "# Fine 😀\n\nGood text.\n\n",
        "```py\nbad(code)\n```\n\n| bad | table |\n|---|---|\n| 1 | 2 |\n",
    )
    await socket.delta(kept + vetoed, 1, 9)
    await expect(page.locator(".prose table")).to_be_visible()
    await socket.tell("retract", g=1, o=10, p=len(kept), category="violence", policy="strict")
    await expect(page.locator(".prose table")).to_have_count(0)
    assert "bad" not in await page.locator("body").inner_html()
    await expect(page.locator(".prose h1, .prose h2, .prose h3").first).to_have_text("Fine 😀")
    await socket.delta("And on.", 11, p=len(kept))
    await expect(page.get_by_text("And on.")).to_be_visible()
    await socket.end(kept + "And on.", 12, reason="blocked")
    await expect(page.locator(".note.held strong")).to_have_text("Stopped here by the safety policy.")


async def test_a_snap_replaces_what_was_shown(open_page: OpenPage, peer: Peer):
    """The old text goes, the new one grows on."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await asked(page, socket)
    await socket.tell("snap", g=1, epoch=2, o=7, x="They **want**")
    await expect(page.locator(".prose")).to_have_text("They want")
    await socket.delta(" sun.", 8, p=13)
    await expect(page.locator(".prose")).to_have_text("They want sun.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing_while_an_answer_waits(
    open_page: OpenPage, peer: Peer, scheme: str, size: str
):
    """The states have contrast and fit, in both themes and on a phone."""
    options: dict[str, Any] = {"color_scheme": scheme, "reduced_motion": "reduce"}
    watched, socket = await opened(open_page, peer, **options, **(PHONE if size == "phone" else {}))
    page = watched.page
    await asked(page, socket)
    await socket.tell("event", g=1, o=2, k="moved", v={"why": "preempt"})
    await expect(page.locator(".state")).to_be_visible()
    assert await watched.axe() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
