"""A chat that is too long goes on in a new one, by a summary that the user may edit."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import MODELS, Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


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
    await expect(page.get_by_role("button", name="Back to the old chat")).to_be_visible()
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
    await page.get_by_role("button", name="Back to the old chat").click()
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
