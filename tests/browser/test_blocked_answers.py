"""The note at the end of an answer that a safety policy ended."""

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import note, opened, write
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import history
from tests.support.scripted_peer import Frame, Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize(
    ("safety", "head", "rest"),
    [
        (
            {"category": "private_key", "scope": "tenant"},
            "Stopped here by your organization’s safety policy: private key.",
            "Ask without the key itself, or give your administrator the request id.",
        ),
        (
            {"category": "card", "scope": "project"},
            "Stopped here by this project’s safety policy: card number.",
            "Ask without the number itself, or give your administrator the request id.",
        ),
        (
            {"category": "medical_dosage", "scope": "platform"},
            "Stopped here by this service’s safety policy: medical dosage.",
            "Ask without it, or give your administrator the request id.",
        ),
        (
            None,
            "Stopped here by the safety policy.",
            "Ask in another way, or give your administrator the request id.",
        ),
    ],
)
async def test_a_block_is_said_where_the_text_ends(
    open_page: OpenPage, peer: Peer, safety: Frame | None, head: str, rest: str
):
    """Live and in the history: whose policy, what for, what to do. The question comes back to be edited, and
    what was typed meanwhile stays."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Make a key")
    id = await socket.accept()
    await socket.delta("Here it is:", 1)
    end: Frame = {"reason": "blocked", "code": "safety_blocked"} | ({"safety": safety} if safety else {})
    await socket.end("Here it is:", 2, **end)
    await expect(note(page).locator("strong")).to_have_text(head)
    await expect(note(page).locator("p")).to_have_text(f"{head} Nothing after this place was kept. {rest}")
    await expect(page.locator("#announcer")).to_have_text(head)
    field = page.get_by_label("Message", exact=True)
    await field.fill("but first")
    await page.get_by_role("button", name="Edit the question").click()
    await expect(field).to_have_value("Make a key\n\nbut first")
    await expect(field).to_be_focused()
    await page.get_by_role("button", name="Edit the question").click()
    await expect(field).to_have_value("Make a key\n\nbut first")
    await page.evaluate("void (navigator.clipboard.writeText = async (text) => void (window.copied = text))")
    await page.get_by_role("button", name="Copy request id").click()
    await expect(page.locator(".note .done")).to_have_text("Copied")
    assert await page.evaluate("copied") == id
    more = {"reason": "blocked", "code": "safety_blocked", "safety": safety}
    watched = await history(open_page, peer, "Here it is:", more=more)
    await expect(note(watched.page).locator("strong")).to_have_text(head)
    await watched.page.evaluate(
        "void (navigator.clipboard.writeText = async (text) => void (window.copied = text))"
    )
    await watched.page.get_by_role("button", name="Copy request id").click()
    assert await watched.page.evaluate("copied") == "r1"
    assert watched.errors == []
