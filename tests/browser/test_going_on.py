"""An answer that was cut goes on in its place, and the page says what is no longer read."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import PHONE, note, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FLAG = {"category": "card", "action": "redact", "scope": "platform"}


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
async def test_a_cut_answer_goes_on_as_one_text(open_page: OpenPage, peer: Peer, options: dict[str, Any]):
    """One article, parsed as one text, with the chips of both parts; a refusal leaves it as it was."""
    watched, socket = await opened(open_page, peer, **options)
    page = watched.page
    await write(page, "Tell me.")
    id = await socket.accept()
    await socket.delta("One **bo", 1)
    await socket.end("One **bo", 2, reason="length", usage={"input": 9, "output": 2048, "total": 2057})
    await expect(note(page)).to_have_text("Cut off at its length limit, 2,048 tokens.")
    go_on = page.get_by_role("button", name="Continue")
    for answer in ("refuse", "accept"):
        await go_on.click()
        send = await socket.hear("send")
        assert (send["continue"], "content" in send) == (id, False)
        if answer == "refuse":
            error = {"code": "overloaded", "message": "busy", "retry": True, "after_ms": 60_000}
            await socket.tell("error", re="send", id=send["id"], **error)
            await expect(note(page)).to_contain_text("All workers are busy.")
            await expect(page.locator(".question")).to_have_count(1)
            await expect(page.locator(".facts")).to_contain_text("2,057 tokens")
        else:
            socket.heard.append(send)
    second = await socket.accept(g=2)
    await expect(go_on).to_be_hidden()
    await socket.delta("ld** and [CARD_1]", 1, g=2)
    await socket.tell("event", g=2, o=2, k="flagged", v={**FLAG, "p": 9, "n": 8})
    prose = page.locator(".prose")
    await expect(prose.locator("strong")).to_have_text("bold")
    await socket.end("ld** and [CARD_1]", 3, g=2, usage={"input": 12, "output": 3, "total": 15})
    await expect(page.locator(".answer")).to_have_count(1)
    await expect(prose.get_by_role("button")).to_have_text("card 1")
    await expect(page.locator(".facts")).to_contain_text("2,072 tokens")
    await expect(note(page)).to_be_hidden()
    await expect(go_on).to_be_hidden()
    assert second != id
    assert watched.errors == []


FULL = "This answer fills what the model can read. Ask a new question, or start a new chat."
LENGTH: dict[str, Any] = {"reason": "length", "usage": {"input": 19, "output": 981, "total": 1000}}


async def test_an_answer_that_the_model_cannot_read_stays_as_it_was(open_page: OpenPage, peer: Peer):
    """With its note, cost and Retry. What cannot work is no longer offered; nobody is told to shorten it."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Tell me.")
    await socket.accept()
    await socket.delta("On and **on", 1)
    await socket.end("On and **on", 2, **LENGTH)
    await page.get_by_role("button", name="Continue").click()
    tokens = {"has": 994, "fit": 738}
    refused = {
        "code": "too_large",
        "message": "This message has 994 tokens",
        "retry": False,
        "tokens": tokens,
    }
    await socket.tell("error", re="send", id=(await socket.hear("send"))["id"], **refused)
    await expect(note(page)).to_have_text(f"Cut off at its length limit, 981 tokens. {FULL}")
    await expect(note(page)).not_to_have_class("error")
    await expect(page.locator("#announcer")).to_have_text(FULL)
    await expect(page.get_by_role("button", name="Continue")).to_be_hidden()
    await expect(page.locator(".facts")).to_contain_text("1,000 tokens (19 in, 981 out) · $")
    await expect(page.get_by_role("button", name="Retry")).to_be_visible()
    await expect(page.locator(".prose")).to_have_text("On and **on")
    await write(page, "Thanks.")
    assert (await socket.hear("send"))["content"] == "Thanks."
    assert watched.errors == []


@pytest.mark.parametrize(("kept", "room", "offered"), [(1, 980, False), (1, 981, True), (2, 980, True)])
async def test_to_go_on_is_offered_where_it_can_work(
    open_page: OpenPage, peer: Peer, kept: int, room: int, offered: bool
):
    """The answer so far has room beside a further one, or older turns make it."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Tell me.")
    await socket.accept(context={"kept": kept, "dropped": 0, "room": room}, max_tokens=981)
    await socket.delta("On", 1)
    await socket.end("On", 2, **LENGTH)
    await expect(note(page)).to_have_text(
        "Cut off at its length limit, 981 tokens." + ("" if offered else f" {FULL}")
    )
    await expect(page.get_by_role("button", name="Continue")).to_be_visible(visible=offered)


async def test_history_shows_the_parts_as_one(open_page: OpenPage, peer: Peer):
    """And a line above the oldest turn that is still read."""
    chat = "01a20386-e0cd-7c47-ab3d-5bcd65c9d2d6"
    rows = [
        ("user", "first", {}),
        ("assistant", "old", {"reason": "stop"}),
        ("user", "second", {}),
        ("assistant", "1. on", {"reason": "length", "id": "m3"}),
        ("assistant", "e\n2. two", {"reason": "stop", "continues": "m3"}),
    ]
    common = {"flags": [], "safety": None, "usage": None, "cost": None, "code": "", "model": "m"}
    common |= {"status": "ended", "reason": "", "context": None, "continues": None}
    peer.messages[chat] = [
        {**common, "id": f"m{at}", "request_id": f"r{at}", "role": role, "content": content, **facts}
        for at, (role, content, facts) in enumerate(rows)
    ]
    peer.messages[chat][-1]["context"] = {"kept": 1, "dropped": 1, "room": 10}
    watched, _ = await opened(open_page, peer, f"/#/{chat}")
    page = watched.page
    await expect(page.locator(".answer")).to_have_count(2)
    assert await page.locator(".prose li").all_inner_texts() == ["one", "two"]
    read = await page.locator("#log > *").evaluate_all(
        "all => all.map((each) => each.className.split(' ')[0])"
    )
    assert read == ["question", "answer", "unread", "question", "answer"]
    await expect(page.locator(".unread")).to_have_text(
        "Older turns are no longer read · Start anew from here"
    )
    tops = "all => all.map((each) => [each.getBoundingClientRect().top, each.getBoundingClientRect().bottom])"
    (_, end), (line, _) = (await page.locator("#log > *").evaluate_all(tops))[1:3]
    assert line - end >= 28
    assert watched.errors == []


async def test_the_line_moves_as_turns_are_dropped(open_page: OpenPage, peer: Peer):
    """By what `accepted` says; none while all is read."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    for turn, (kept, dropped) in enumerate([(1, 0), (2, 0), (1, 2), (2, 2)], 1):
        await write(page, f"Question {turn}")
        await socket.accept(g=turn, context={"kept": kept, "dropped": dropped, "room": 5_000}, max_tokens=9)
        await socket.delta("yes", 1, g=turn)
        await socket.end("yes", 2, g=turn)
        await expect(page.locator(".answer[aria-busy=false]")).to_have_count(turn)
        above = page.locator(".unread + .question")
        await expect(above).to_have_count(1 if dropped else 0)
        if dropped:
            await expect(above).to_contain_text("Question 3")
    assert watched.errors == []
