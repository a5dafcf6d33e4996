"""What the chat page says where a limit refuses."""

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import note, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FIRST_OF_DECEMBER_2099_MS = 4_099_766_400_000


async def test_a_limit_is_told_in_words(open_page: OpenPage, peer: Peer):
    """A budget says whose it is and when it begins anew, a rate when to try again."""
    watched, socket = await opened(open_page, peer, timezone_id="UTC")
    page = watched.page
    await write(page, "How do rainbows form?")
    refused = {"re": "send", "id": (await socket.hear("send"))["id"], "message": "x"}
    budget = {"scope": "user", "dimension": "month", "limit": 5, "resets_at_ms": FIRST_OF_DECEMBER_2099_MS}
    await socket.tell("error", code="budget_exceeded", retry=False, **refused, **budget)
    words = "Your budget of $0.000000005 for this month is used up; it begins anew on 1 December."
    await expect(note(page)).to_contain_text(words)
    await page.get_by_role("button", name="Retry").click()
    refused["id"] = (await socket.hear("send"))["id"]
    left = budget | {"scope": "tenant", "remaining": 36_700}
    await socket.tell("error", code="budget_exceeded", retry=False, **refused, **left)
    words = (
        "Your organization's budget of $0.000000005 for this month has $0.0000367 left, too little for this"
    )
    await expect(note(page)).to_contain_text(words)
    await page.get_by_role("button", name="Retry").click()
    refused["id"] = (await socket.hear("send"))["id"]
    none = {"scope": "project", "dimension": "day", "limit": 0, "remaining": 0}
    await socket.tell("error", code="budget_exceeded", retry=False, **refused, **none)
    await expect(note(page)).to_contain_text("This project's budget for today allows no spending.")
    await page.get_by_role("button", name="Retry").click()
    refused["id"] = (await socket.hear("send"))["id"]
    rate = {"scope": "project", "dimension": "requests_per_minute", "limit": 2, "after_ms": 1500}
    await socket.tell("error", code="rate_limited", retry=True, **refused, **rate)
    words = "This project's limit of 2 requests a minute is reached. Try again in 1 second."
    await expect(note(page)).to_contain_text(words)
    await expect(note(page)).to_contain_text("The wait is over: you can send it again now.")
    assert watched.errors == []


async def test_answers_at_once_promise_no_time(open_page: OpenPage, peer: Peer):
    """Nobody knows when another answer ends, so no seconds are named."""
    watched, socket = await opened(open_page, peer)
    await write(watched.page, "How do rainbows form?")
    id = (await socket.hear("send"))["id"]
    limit = {"scope": "user", "dimension": "concurrency", "limit": 1, "after_ms": 1000}
    await socket.tell("error", re="send", id=id, code="rate_limited", message="x", retry=True, **limit)
    words = "Your limit of 1 answer at once is reached. Try again when one has ended."
    await expect(note(watched.page)).to_have_text(words)
    await expect(watched.page.locator("#announcer")).to_have_text(words)


async def test_what_was_refused_is_not_lost(open_page: OpenPage, peer: Peer):
    """A first message that a limit refused is a draft after a reload, and can be sent again in its chat."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "How do rainbows form?")
    send = await socket.hear("send")
    await socket.tell("error", re="send", id=send["id"], code="overloaded", message="x", retry=True)
    await expect(note(page)).to_have_text("All workers are busy.")
    await page.reload()
    socket = await peer.socket()
    await socket.welcome()
    field = page.get_by_label("Message", exact=True)
    await expect(field).to_have_value("How do rainbows form?")
    await expect(page.locator("#log > *")).to_have_count(0)
    await field.press("Enter")
    again = await socket.hear("send")
    assert (again["content"], again["conversation"]) == (send["content"], send["conversation"])
    await socket.tell("accepted", id=again["id"], g=1, epoch=1, dup=False, priority="bulk", queue=None)
    await expect(page.get_by_text("Thinking…")).to_be_visible()
    assert await page.evaluate("localStorage.length") == 0


async def test_a_chat_that_is_gone_says_so_and_offers_nothing_that_cannot_work(
    open_page: OpenPage, peer: Peer
):
    """The address of a chat that was deleted leads to words, not to a button that loads it again for ever."""
    watched, _ = await opened(open_page, peer, "/#/01a1ff47-644a-79a9-9144-3f519323a5ff")
    page = watched.page
    await expect(page.get_by_text("There is no such chat. It may have been deleted.")).to_be_visible()
    await expect(page.get_by_role("button", name="Retry")).to_be_hidden()


async def test_a_revoked_key_leaves_what_is_read_and_typed(open_page: OpenPage, peer: Peer):
    """The page says why it stopped and offers to sign in; nothing that was read or typed is wiped away."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "How do rainbows form?")
    await socket.accept()
    await socket.delta("They need sun", 1)
    await expect(page.locator(".prose")).to_have_text("They need sun")
    await page.get_by_label("Message", exact=True).fill("And what of")
    peer.revoked = True
    await socket.close(4501, "the key was revoked")
    notice = page.locator("#notice")
    await expect(notice).to_contain_text("You were signed out here, or your key has expired or was revoked")
    await expect(page.locator(".prose")).to_have_text("They need sun")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("And what of")
    assert await watched.axe() == []
    await notice.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_have_text("You were signed out: your key was revoked.")


async def test_a_long_chat_scrolls_in_one_place(open_page: OpenPage, peer: Peer):
    """What only screen readers see makes the page no longer than its window."""
    watched, socket = await opened(open_page, peer, viewport={"width": 900, "height": 400})
    page = watched.page
    for n in range(4):
        await write(page, "How do rainbows form?")
        await socket.accept(g=n + 1)
        await socket.delta("sun\n\n" * 20, 1, g=n + 1)
        await socket.end("sun\n\n" * 20, 2, g=n + 1)
        await expect(page.locator(".foot:visible")).to_have_count(n + 1)
    assert await page.evaluate("document.getElementById('scroller').scrollHeight > innerHeight")
    assert await page.evaluate("document.documentElement.scrollHeight <= innerHeight")
