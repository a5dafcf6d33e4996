"""Questions that no server takes as they are: they stand in the field again, and it is said what to do."""

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import MODELS, Peer, welcome_fields

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FRAME = welcome_fields()["limits"]["frame"]


def field(page: Page) -> Locator:
    """Where one writes."""
    return page.get_by_label("Message", exact=True)


async def test_a_text_too_long_for_a_frame_comes_back(open_page: OpenPage, peer: Peer):
    """By its bytes, not its letters. Nothing is sent, so that the connection lives. Shorter, it is sent."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "日" * (FRAME // 3))
    line = page.locator("#not-sent")
    await expect(line).to_contain_text("Not sent: this message is too long.")
    await expect(line).to_contain_text(
        "It has 263 kB, at most 263 kB can be sent at once. Shorten it, or send it in parts."
    )
    await expect(field(page)).to_have_value("日" * (FRAME // 3))
    await expect(page.locator("#log > *")).to_have_count(0)
    await expect(page.locator("#conversations li")).to_have_count(0)
    await write(page, "日" * (FRAME // 3 - 100))
    assert len((await socket.hear("send"))["content"]) == FRAME // 3 - 100
    await expect(line).to_be_hidden()
    assert (socket.code, watched.errors) == (None, [])


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"code": "too_large", "message": "it has 9420 tokens", "limit": 8192},
            "Not sent: this message is too long. It has 9420 tokens. Shorten it, or send it in parts.",
        ),
        (
            {"code": "bad_request", "message": "the prompt is empty"},
            "Not sent. The prompt is empty. Change the text and send it again.",
        ),
    ],
)
async def test_a_refusal_for_ever_gives_the_text_back(
    open_page: OpenPage, peer: Peer, facts: dict[str, Any], said: str
):
    """Sending the same again could not help: there is no button for it, but one for the administrator."""
    watched, socket = await opened(open_page, peer, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    await write(page, "How do rainbows form?")
    id = (await socket.hear("send"))["id"]
    await socket.tell("error", re="send", id=id, retry=False, **facts)
    await expect(page.locator("#not-sent p")).to_have_text(said)
    await expect(page.locator("#announcer")).to_have_text(said)
    await expect(field(page)).to_have_value("How do rainbows form?")
    await expect(page.get_by_role("button", name="Retry")).to_be_hidden()
    await expect(page.get_by_role("button", name="Show where")).to_be_hidden()
    await page.get_by_role("button", name="Copy request id").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == id
    assert watched.errors == []


@pytest.mark.parametrize(("has", "offered"), [(9420, True), (65_000, False)])
async def test_a_model_that_reads_more_is_offered(
    open_page: OpenPage, peer: Peer, monkeypatch: pytest.MonkeyPatch, has: int, offered: bool
):
    """Where one reads enough: it is told by how much the text is too long, and goes there by one button."""
    monkeypatch.setitem(MODELS[1], "max_model_len", 32_768)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "A long story")
    facts = {"re": "send", "id": (await socket.hear("send"))["id"], "message": "x", "retry": False}
    await socket.tell("error", code="too_large", limit=8192, tokens={"has": has, "fit": 6100}, **facts)
    line = page.locator("#not-sent")
    await expect(line.locator("strong")).to_have_text(
        "Not sent: this message is longer than smollm2 can read."
    )
    await expect(line).to_contain_text(f"It has about {has:,} tokens, 6,100 fit beside the answer.")
    other = page.get_by_role("button", name="Send to smollm2-large")
    await expect(other).to_be_visible(visible=offered)
    if offered:
        await other.click()
        send = await socket.hear("send")
        assert (send["content"], send["model"]) == ("A long story", "smollm2-large")
    assert watched.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing(open_page: OpenPage, peer: Peer, scheme: str, size: str):
    """With a question that a policy refused: its choices are large enough for a finger."""
    options: dict[str, Any] = {"color_scheme": scheme} | (PHONE if size == "phone" else {})
    watched, socket = await opened(open_page, peer, **options, reduced_motion="reduce")
    page = watched.page
    await write(page, "Is 4111 1111 1111 1111 mine?")
    id = (await socket.hear("send"))["id"]
    place = {"category": "card", "scope": "tenant", "p": 3, "n": 19}
    facts = {"re": "send", "id": id, "message": "not sent", "retry": False}
    await socket.tell("error", code="safety_blocked", safety=place, **facts)
    await expect(page.locator("#not-sent")).to_be_visible()
    assert await watched.axe() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    for choice in await page.locator("#not-sent button:visible").all():
        box = await choice.bounding_box()
        assert box
        assert size == "desk" or box["height"] >= 44
