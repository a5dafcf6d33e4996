"""What is written and not sent: kept by person and chat, shown to nobody else, never lost unsaid."""

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from core.clock import now_ms
from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.scripted_peer import Frame, Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CHAT = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
OTHER = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d02"
DAY_MS = 24 * 3600 * 1000
KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('draft:')).sort()"
SEED = """(drafts) => {
  for (const [chat, facts] of drafts) {
    const draft = { at: Date.now(), text: "x", sent: [], fresh: false };
    const { who = "person-u", ...more } = facts;
    localStorage.setItem(`draft:${who}:${chat}`, JSON.stringify({ ...draft, ...more }));
  }
}"""


def field(page: Page) -> Locator:
    """Where one writes."""
    return page.get_by_label("Message", exact=True)


def marked(page: Page) -> Locator:
    """Chats in the list that are said to have a draft."""
    return page.locator("#conversations a:has(.draft) .name")


def chats(peer: Peer) -> None:
    """Two empty ones."""
    named = [(CHAT, "Rainbows"), (OTHER, "Lisbon")]
    peer.conversations = [
        {"id": id, "title": title, "updated_ms": now_ms(), "running": False} for id, title in named
    ]
    peer.messages |= {CHAT: [], OTHER: []}


async def reloaded(page: Page, peer: Peer) -> Socket:
    """The page once more, connected."""
    await page.reload()
    socket = await peer.socket()
    await socket.welcome()
    return socket


async def test_each_chat_keeps_its_draft(open_page: OpenPage, peer: Peer):
    """Over other chats and a reload, blanks and all; the list says so of those that are not open. Sent, or
    deleted, it is gone."""
    chats(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await field(page).fill("And  at\nnight? ")
    await page.get_by_role("link", name="Lisbon").click()
    await expect(field(page)).to_have_value("")
    await expect(marked(page)).to_have_text(["Rainbows"])
    await field(page).fill("With a bad knee")
    await page.get_by_role("link", name="New chat").click()
    await expect(field(page)).to_have_value("")
    await field(page).fill("Something new")
    await page.get_by_role("link", name="Lisbon").click()
    await expect(page.locator("#new-draft")).to_be_visible()
    socket = await reloaded(page, peer)
    await expect(field(page)).to_have_value("With a bad knee")
    await page.get_by_role("link", name="Rainbows").click()
    await expect(field(page)).to_have_value("And  at\nnight? ")
    await expect(marked(page)).to_have_text(["Lisbon"])
    await field(page).press("Enter")
    await socket.accept()
    await page.get_by_role("link", name="New chat").click()
    await expect(field(page)).to_have_value("Something new")
    await page.get_by_role("button", name="Delete “Lisbon”").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(marked(page)).to_have_count(0)
    assert await page.evaluate(KEPT) == ["draft:person-u:new"]
    assert watched.errors == []


async def test_drafts_are_their_writers(open_page: OpenPage, peer: Peer):
    """They outlive a session that ends and a sign-in; the next person never sees them."""
    chats(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await field(page).fill("Only mine")
    await write(page, "Only mine, on its way")
    await field(page).fill("Only mine")
    peer.signed_in = False
    await socket.close(4501, "over")
    await signed_in(page, peer)
    await expect(field(page)).to_have_value("Only mine, on its way\n\nOnly mine")
    peer.signed_in, peer.user = False, "somebody else"
    await page.reload()
    await signed_in(page, peer)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rainbows")
    await expect(field(page)).to_have_value("")
    await expect(page.get_by_text("Only mine")).to_have_count(0)
    assert await page.evaluate(KEPT) == []


async def signed_in(page: Page, peer: Peer) -> None:
    """By the form."""
    await page.get_by_label("API key").fill("pk_good")
    await page.keyboard.press("Enter")
    await (await peer.socket()).welcome()


async def test_signing_out_removes_drafts(open_page: OpenPage, peer: Peer):
    """Of all chats: nothing of them stays in the browser."""
    chats(peer)
    watched, _ = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await field(page).fill("Only mine")
    await page.get_by_role("link", name="Lisbon").click()
    await field(page).fill("This too")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    assert await page.evaluate(KEPT) == []


async def second_tab(watched: WatchedPage, peer: Peer) -> Page:
    """The same chat in another tab of the browser."""
    page = await watched.page.context.new_page()
    await page.goto(watched.page.url)
    await (await peer.socket()).welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    return page


async def test_two_tabs_have_one_draft(open_page: OpenPage, peer: Peer):
    """A tab that has written nothing of its own follows the other, also when that sends. What it wrote itself
    stays in it, and who typed last is kept."""
    chats(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await field(page).fill("One")
    other = await second_tab(watched, peer)
    await expect(field(other)).to_have_value("One")
    await field(page).fill("One, two")
    await expect(field(other)).to_have_value("One, two")
    await field(page).press("Enter")
    await socket.hear("send")
    await expect(field(other)).to_have_value("")
    await other.evaluate("addEventListener('storage', (event) => event.stopImmediatePropagation(), true)")
    await other.evaluate("document.getElementById('prompt').value = 'My own, longer text'")
    await field(page).fill("Three")
    await expect(field(other)).to_have_value("My own, longer text")
    await field(other).press_sequentially("!")
    await expect(field(page)).to_have_value("My own, longer text!")
    assert watched.errors == []


async def test_what_is_refused_while_another_chat_is_open_is_a_draft(open_page: OpenPage, peer: Peer):
    """Its chat stays in the list by it, also after a reload, and has the text when it is opened; nobody is
    told that there is no such chat."""
    chats(peer)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "How do rainbows form?")
    send = await socket.hear("send")
    await page.get_by_role("link", name="Lisbon").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Lisbon")
    facts = {"re": "send", "id": send["id"], "code": "overloaded", "message": "x", "retry": True}
    await socket.tell("error", **facts)
    for _ in range(2):
        await expect(marked(page)).to_have_text(["How do rainbows form?"])
        socket = await reloaded(page, peer)
    await page.get_by_role("link", name="How do rainbows form?").click()
    await expect(field(page)).to_have_value("How do rainbows form?")
    await expect(page.locator("#log > *")).to_have_count(0)
    await field(page).press("Enter")
    assert (await socket.hear("send"))["conversation"] == send["conversation"]
    assert watched.errors == [
        "Failed to load resource: the server responded with a status of 404 (Not Found)"
    ]


async def test_a_turn_on_its_way_is_there_when_one_comes_back(open_page: OpenPage, peer: Peer):
    """Neither lost nor said to be: the server has just not answered yet."""
    chats(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await write(page, "And at night?")
    await page.get_by_role("link", name="Lisbon").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Lisbon")
    await page.get_by_role("link", name="Rainbows").click()
    await expect(page.locator(".bubble")).to_have_text("And at night?")
    await expect(field(page)).to_have_value("")
    await socket.accept()
    await socket.delta("They need sun.", 1)
    await socket.end("They need sun.", 2)
    await expect(page.locator(".prose")).to_have_text("They need sun.")
    assert await page.evaluate(KEPT) == []


@pytest.mark.parametrize(
    ("seeds", "kept"),
    [
        ([["old", {"at": now_ms() - 31 * DAY_MS}], ["young", {"at": now_ms() - 29 * DAY_MS}]], ["young"]),
        ([["theirs", {"who": "person-v"}], ["broken", {"text": 7}], ["mine", {}]], ["mine"]),
        ([[f"chat-{n:02}", {"at": now_ms() - n}] for n in range(32)], [f"chat-{n:02}" for n in range(29)]),
    ],
    ids=["age", "whose", "number"],
)
async def test_what_is_kept_has_bounds(open_page: OpenPage, peer: Peer, seeds: Any, kept: list[str]):
    """Drafts of a month, thirty of them, of this person."""
    watched, _ = await opened(open_page, peer)
    page = watched.page
    await page.evaluate(SEED, seeds)
    await reloaded(page, peer)
    await field(page).fill("x")
    assert await page.evaluate(KEPT) == sorted(f"draft:person-u:{chat}" for chat in [*kept, "new"])


async def test_a_full_browser_keeps_the_newest(open_page: OpenPage, peer: Peer):
    """Older drafts make room; a text for which there is none stays in the field, and that is said."""
    watched, _ = await opened(open_page, peer)
    page = watched.page
    await page.evaluate(SEED, [[f"chat-{n}", {"at": now_ms() - 1000 + n}] for n in range(3)])
    fill = "localStorage.setItem('full', 'x'.repeat(5 * 1024 * 1024 - 1000))"
    await page.evaluate(fill)
    await reloaded(page, peer)
    await field(page).fill("y" * 790)
    assert await page.evaluate(KEPT) == ["draft:person-u:chat-2", "draft:person-u:new"]
    said = page.get_by_text("This text is too long to be kept here.")
    await expect(said.first).to_be_hidden()
    await field(page).fill("z" * 400_001)
    await expect(said.first).to_be_visible()
    assert (await watched.axe(), watched.errors) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing(open_page: OpenPage, peer: Peer, scheme: str, size: str):
    """In the list with drafts."""
    chats(peer)
    options: Frame = {"color_scheme": scheme, "reduced_motion": "reduce"} | (PHONE if size == "phone" else {})
    watched, _ = await opened(open_page, peer, f"/#/{CHAT}", **options)
    page = watched.page
    await page.evaluate(SEED, [[OTHER, {}], ["new", {}]])
    await reloaded(page, peer)
    if size == "phone":
        await page.get_by_role("button", name="Chats", exact=True).click()
    await expect(page.locator(".draft:visible")).to_have_count(2)
    assert await watched.axe() == []
