"""A chat that is too long goes on in a new one, by a summary that the user may edit."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import CHAT, stored
from tests.support.scripted_peer import MODELS, Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ASKED = "This page asked for a summary, to begin a new chat with"
PROMPT = (
    "Summarize our conversation so far, so that a new one can go on from it: what was asked and decided, the "
    "facts and names that matter, and what is still open. Write only the summary, in the language of the "
    "conversation."
)


async def asked(page: Page, socket: Socket, g: int, question: str, dropped: int = 0) -> None:
    """A question, answered with yes."""
    await write(page, question)
    await socket.accept(g=g, context={"kept": 1, "dropped": dropped, "room": 5000}, max_tokens=9)
    await socket.delta("yes", 1, g=g)
    await socket.end("yes", 2, g=g, usage={"input": 5000, "output": 800, "total": 5800})
    await expect(page.locator(".answer[aria-busy=false]")).to_have_count(g)


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
async def test_a_new_chat_begins_with_a_summary(open_page: OpenPage, peer: Peer, options: dict[str, Any]):
    """Its cost is said first; it is a turn of the old chat, and the system prompt of the new one, as edited.
    It stays over a reload, and where the new chat's first turn is refused; so does the way back."""
    watched, socket = await opened(open_page, peer, **options)
    page = watched.page
    await asked(page, socket, 1, "One")
    await expect(page.locator(".unread")).to_have_count(0)
    await asked(page, socket, 2, "Two", dropped=1)
    await page.get_by_role("button", name="Start anew from here").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("a summary of the turn that is still read")
    await expect(dialog).to_contain_text("about 6,400 tokens")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Write the summary").click()
    old = page.url
    send = await socket.hear("send")
    assert send["content"].startswith("Summarize our conversation so far")
    assert "system" not in send
    socket.heard.append(send)
    await socket.accept(g=3)
    await socket.delta("They said yes.", 1, g=3)
    await socket.end("They said yes.", 2, g=3)
    summary = page.get_by_label("Summary of the old chat")
    await expect(summary).to_have_value("They said yes.")
    assert page.url != old
    assert await watched.axe() == []
    await summary.fill("They said no.")
    await page.reload()
    socket = await peer.socket()
    await socket.welcome()
    await expect(summary).to_have_value("They said no.")
    await expect(page.get_by_role("button", name="Back to it")).to_be_visible()
    for refused in (True, False):
        if refused:
            await write(page, "Go on")
        else:
            await page.locator("#send").click()
        send = await socket.hear("send")
        assert send["system"] == "Summary of the conversation so far:\n\nThey said no."
        if refused:
            error = {"code": "too_large", "message": "too large", "retry": False}
            await socket.tell("error", re="send", id=send["id"], **error)
            await expect(page.get_by_label("Message", exact=True)).to_have_value("Go on")
            await expect(summary).to_have_value("They said no.")
        else:
            socket.heard.append(send)
    await socket.accept(g=4)
    await expect(summary).to_be_hidden()
    assert "They said no." not in await page.evaluate("JSON.stringify(localStorage)")
    await socket.delta("so be it", 1, g=4)
    await socket.end("so be it", 2, g=4)
    await write(page, "And?")
    assert "system" not in await socket.hear("send")
    assert watched.errors == []


async def test_the_old_chat_is_a_click_away_also_after_a_reload(open_page: OpenPage, peer: Peer):
    """The summary is given up with it."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await asked(page, socket, 1, "One", dropped=1)
    old = page.url
    await page.get_by_role("button", name="Start anew from here").click()
    await page.get_by_role("button", name="Write the summary").click()
    await socket.accept(g=2)
    await socket.delta("Yes.", 1, g=2)
    await socket.end("Yes.", 2, g=2)
    await expect(page.locator("#summary")).to_have_value("Yes.")
    await page.reload()
    await (await peer.socket()).welcome()
    await page.get_by_role("button", name="Back to it").click()
    await expect(page.locator("#summary")).to_be_hidden()
    assert page.url == old
    assert await page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft:'))") == []


@pytest.mark.parametrize(("chosen", "price"), [("smollm2", "$0.058"), ("smollm2-large", "$0.58")])
async def test_the_summary_has_the_price_of_the_model_that_writes_it(
    open_page: OpenPage, peer: Peer, monkeypatch: pytest.MonkeyPatch, chosen: str, price: str
):
    """That is the chosen one, which need not be the default."""
    for model, dollars in zip(MODELS, (10, 100), strict=True):
        costs = {"currency": "usd", "input_nano": dollars * 10**9, "output_nano": 0, "request_nano": 0}
        monkeypatch.setitem(model, "prices", costs)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await page.locator("#model").select_option(chosen)
    await asked(page, socket, 1, "One", dropped=1)
    await page.get_by_role("button", name="Start anew from here").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"tokens, {price}.")


async def test_a_new_chat_may_begin_empty(open_page: OpenPage, peer: Peer):
    """Nothing is asked for it; another way is to keep the chat."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await asked(page, socket, 1, "One", dropped=1)
    for name in ("Keep this chat", "Begin empty"):
        await page.get_by_role("button", name="Start anew from here").click()
        await page.get_by_role("button", name=name).click()
        await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.locator(".answer")).to_have_count(0)
    await expect(page.locator("#summary")).to_be_hidden()
    await write(page, "New")
    assert "system" not in await socket.hear("send")
    assert watched.errors == []


async def test_it_is_offered_before_turns_are_dropped(open_page: OpenPage, peer: Peer):
    """Once a tenth of the model's context is left, while a summary still covers all."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "One")
    await socket.accept(context={"kept": 1, "dropped": 0, "room": 5}, max_tokens=9)
    await expect(page.locator(".unread")).to_contain_text("Soon the oldest turns are no longer read")
    await expect(page.get_by_role("button", name="Start anew from here")).to_be_visible()
    assert watched.errors == []


@pytest.mark.parametrize(
    "options", [{"viewport": {"width": 1200, "height": 800}}, PHONE], ids=["wide", "phone"]
)
async def test_what_it_costs_is_said_once_the_answer_has_ended(
    open_page: OpenPage, peer: Peer, options: dict[str, Any]
):
    """Until then nothing can be asked; a question that waits goes first. Each button is in one line."""
    watched, socket = await opened(open_page, peer, **options)
    page = watched.page
    await asked(page, socket, 1, "One", dropped=1)
    await write(page, "Two")
    await socket.accept(g=2, context={"kept": 1, "dropped": 1, "room": 5000}, max_tokens=9)
    await page.get_by_label("Message", exact=True).fill("Three")
    await page.locator("#send-later").click()
    await page.get_by_role("button", name="Start anew from here").click()
    dialog = page.get_by_role("dialog")
    ask = dialog.get_by_role("button", name="Write the summary")
    await expect(dialog).to_contain_text("An answer is still on its way.")
    await expect(ask).to_be_disabled()
    assert await watched.axe() == []
    await socket.delta("yes", 1, g=2)
    await socket.end("yes", 2, g=2, usage={"input": 6000, "output": 800, "total": 6800})
    send = await socket.hear("send")
    assert send["content"] == "Three"
    socket.heard.append(send)
    await expect(ask).to_be_disabled()
    await socket.accept(g=3, context={"kept": 2, "dropped": 1, "room": 5000}, max_tokens=9)
    await socket.delta("yes", 1, g=3)
    await socket.end("yes", 2, g=3, usage={"input": 7000, "output": 800, "total": 7800})
    await expect(dialog).to_contain_text("the 2 turns that are still read")
    await expect(dialog).to_contain_text("about 8,400 tokens")
    await expect(ask).to_be_enabled()
    boxes = [await each.bounding_box() or {} for each in await dialog.get_by_role("button").all()]
    assert max(box["height"] for box in boxes) < 46
    assert len({box["y"] for box in boxes}) == (3 if "is_mobile" in options else 1)
    assert watched.errors == []


async def test_the_pages_own_question_is_nobodys_draft(open_page: OpenPage, peer: Peer):
    """Where an answer that was asked for elsewhere came first, or it does not fit; and it looks like none
    that was typed."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await asked(page, socket, 1, "One", dropped=1)
    field = page.get_by_label("Message", exact=True)
    await page.get_by_role("button", name="Start anew from here").click()
    await page.get_by_role("button", name="Write the summary").click()
    await expect(page.get_by_text(ASKED)).to_be_visible()
    await expect(page.locator(".bubble:visible")).to_have_text(["One"])
    error = {"code": "too_large", "message": "too large", "retry": False}
    await socket.tell("error", re="send", id=(await socket.hear("send"))["id"], **error)
    await page.locator(".refused .retry").click()
    chat = page.url.rsplit("/", 1)[1]
    peer.conversations = [{"id": chat, "title": "One", "updated_ms": 0, "running": False}]
    peer.messages[chat] = stored("yes")
    error = {"code": "conversation_busy", "message": "x", "retry": True, "after_ms": 1000}
    await socket.tell("error", re="send", id=(await socket.hear("send"))["id"], **error)
    await expect(page.locator("#not-sent")).to_contain_text("No summary was written: an answer in this chat")
    await expect(field).to_have_value("")
    assert "Summarize" not in await page.evaluate("JSON.stringify(localStorage)")


async def test_a_summary_that_was_left_alone_is_still_of_use(open_page: OpenPage, peer: Peer):
    """The page was reloaded while it was written: it is offered below it, and may be written again."""
    [asks, answer] = stored("They said yes.", context={"kept": 1, "dropped": 0, "room": 5000})
    peer.messages[CHAT] = [asks | {"content": PROMPT}, answer]
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await expect(page.get_by_text(ASKED)).to_be_visible()
    await page.get_by_role("button", name="Begin a new chat with this").click()
    summary = page.get_by_label("Summary of the old chat")
    await expect(summary).to_have_value("They said yes.")
    await expect(summary).to_be_focused()
    await expect(page.locator("#empty")).to_be_hidden()
    box, frame = [await each.bounding_box() for each in (summary, page.locator("#composer"))]
    assert (box or {})["width"] > 0.9 * (frame or {})["width"]
    assert await watched.axe() == []
    await page.get_by_role("button", name="Write again").click()
    await page.get_by_role("dialog").get_by_role("button", name="Write the summary").click()
    assert (await socket.hear("send"))["content"] == PROMPT
    assert watched.errors == []
