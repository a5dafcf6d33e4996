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
