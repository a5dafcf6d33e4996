"""The chat page against a peer whose every frame is written by hand: what people see and can do."""

from typing import Any

import pytest
from playwright.async_api import expect

from core.clock import now_ms
from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Frame, Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CHAT = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
OTHER = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d02"
REQUEST = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d03"
MARKDOWN = """# Title

Some **bold** text.

```py
print(1)
```

| a | b |
|---|---|
| 1 | 2 |

- [x] done
"""


def message(role: str, content: str, status: str = "ended", **fields: Any) -> Frame:
    """A stored message, as the server lists it."""
    usage = {"input": 37, "cached_input": 0, "output": 412, "total": 449} if role == "assistant" else None
    return {
        "id": f"{role}-{content[:9]}",
        "role": role,
        "content": content,
        "status": status,
        "request_id": REQUEST,
        "reason": "stop",
        "code": "",
        "model": "smollm2",
        "usage": usage,
        "cost": {"nano": 43150, "currency": "usd"},
        "created_ms": now_ms(),
    } | fields


def stored(peer: Peer) -> None:
    """Two chats; the first holds a question and an answer."""
    day = 24 * 3600 * 1000
    peer.conversations = [
        {"id": CHAT, "title": "Rainbows", "updated_ms": now_ms(), "running": False},
        {"id": OTHER, "title": "A long title " * 6, "updated_ms": now_ms() - 3 * day, "running": True},
    ]
    peer.messages[CHAT] = [message("user", "How do rainbows form?"), message("assistant", MARKDOWN)]
    peer.messages[OTHER] = [message("user", "Long ago"), message("assistant", "Yes")]


async def test_an_answer_streams_and_says_what_it_cost(open_page: OpenPage, peer: Peer):
    """Type, watch the text grow, see tokens and cost; the chat gets a title and an address."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "How do  rainbows form?")
    send = await socket.hear("send")
    assert (send["content"], send["model"]) == ("How do  rainbows form?", "smollm2")
    place = {"position": 3, "wait_ms": 900}
    await socket.tell(
        "accepted", id=send["id"], g=1, epoch=1, dup=False, priority="bulk", queue=place, quota={}
    )
    await expect(page.get_by_text("Waiting, number 3 in line…")).to_be_visible()
    await socket.delta("They need **su", 1)
    await expect(page.locator(".prose strong")).to_have_text("su")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await socket.delta("n** and rain.", 2, p=14)
    await socket.end("They need **sun** and rain.", 3)
    await expect(page.locator(".prose")).to_have_text("They need sun and rain.")
    await expect(page.get_by_text("49 tokens (37 in, 12 out) · $0.0000061")).to_be_visible()
    await expect(page.locator("#announcer")).to_have_text("Answer complete")
    await expect(page.get_by_role("heading", level=1)).to_have_text("How do rainbows form?")
    assert page.url == f"{peer.url}/#/{send['conversation']}"
    current = page.get_by_role("navigation").get_by_role("link", name="How do rainbows form?")
    await expect(current).to_have_attribute("aria-current", "page")
    assert (watched.errors, watched.strangers) == ([], [])


async def test_a_code_in_the_address_signs_in_once_and_leaves_no_trace(open_page: OpenPage, peer: Peer):
    """`#c=` is used and dropped before anything else; nothing secret stays in the page's storage."""
    peer.signed_in = False
    watched, _ = await opened(open_page, peer, "/#c=c0de")
    assert watched.page.url == f"{peer.url}/"
    assert (
        await watched.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
    )
    assert watched.errors == []


async def test_a_link_signs_nobody_in_as_another_unasked(open_page: OpenPage, peer: Peer):
    """Who is signed in is asked, the code out of the address already; Enter and Escape keep who it is."""
    for key in ("Enter", "Escape"):
        watched = await open_page(f"{peer.url}/#c=c0de")
        page = watched.page
        dialog = page.get_by_role("dialog", name="Sign in by this link?")
        await expect(dialog).to_contain_text("You are signed in as u of t.")
        assert page.url == f"{peer.url}/"
        await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press(key)
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        assert (peer.logins, watched.errors) == ([], [])
    watched = await open_page(f"{peer.url}/#c=c0de")
    await watched.page.get_by_role("button", name="Sign in as another").click()
    await expect(watched.page.get_by_label("Model")).to_be_visible()
    assert peer.logins == [{"code": "c0de"}]


async def test_a_pasted_key_signs_in(open_page: OpenPage, peer: Peer):
    """A wrong key is answered in words; a good one opens the page and is not kept."""
    peer.signed_in = False
    watched = await open_page(f"{peer.url}/")
    page = watched.page
    key = page.get_by_label("API key")
    await key.fill("pk_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_have_text("This key does not work; ask for a new one.")
    await key.fill("pk_good")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert await page.evaluate("document.getElementById('key').value") == ""


async def test_stop_cancels_and_keeps_the_text(open_page: OpenPage, peer: Peer):
    """Escape and the stop button ask to cancel; the text stays, and says that it was stopped."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Tell me a story")
    id = await socket.accept()
    await socket.delta("Once upon", 1)
    await expect(page.locator(".prose")).to_have_text("Once upon")
    await page.keyboard.press("Escape")
    assert (await socket.hear("cancel"))["id"] == id
    await expect(page.get_by_text("Stopping…")).to_be_visible()
    await socket.tell("cancel_ok", id=id, state="running")
    await socket.end("Once upon", 2, reason="cancelled")
    await expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    await page.get_by_role("button", name="Retry").click()
    again = await socket.hear("send")
    assert (again["content"], again["id"] != id) == ("Tell me a story", True)
    await socket.tell("accepted", id=again["id"], g=2, epoch=1, dup=False, priority="bulk", queue=None)
    await page.get_by_role("button", name="Stop").click()
    assert (await socket.hear("cancel"))["id"] == again["id"]


async def test_a_refused_turn_can_be_retried_in_place(open_page: OpenPage, peer: Peer):
    """A refusal is told in words; retry takes the place of the turn that the server never took."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Hello")
    id = (await socket.hear("send"))["id"]
    await socket.tell("error", re="send", id=id, code="overloaded", message="x", retry=True, after_ms=42_000)
    await expect(page.locator(".note")).to_contain_text("All workers are busy. Try again in 4")
    await page.get_by_role("button", name="Retry").click()
    await socket.accept()
    await expect(page.locator(".question")).to_have_count(1)
    await expect(page.locator(".answer")).to_have_count(1)


async def test_a_lost_connection_is_told_and_the_answer_goes_on(open_page: OpenPage, peer: Peer):
    """The notice says what happens in words and goes with its cause; no text is lost or doubled."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await page.evaluate("void (Math.random = () => 1)")  # the longest wait
    await write(page, "Hello")
    id = await socket.accept()
    for round_ in range(3):
        await socket.delta(f"part{round_} ", round_ + 1, p=6 * round_)
        await expect(page.locator(".prose")).to_contain_text(f"part{round_}")
        peer.cut()
        if round_ == 2:
            await expect(page.get_by_text("The connection was lost. Your answer goes on")).to_be_visible()
            await page.get_by_role("button", name="Try now").click()
        socket = await peer.socket()
        listed = {"id": id, "g": 1, "epoch": 1, "from": round_ + 2, "head": 9, "state": "running"}
        await socket.welcome(requests=[listed], resumed="full")
    await expect(page.get_by_text("The connection was lost.")).to_be_hidden()
    await socket.end("part0 part1 part2 ", 4)
    await expect(page.get_by_text("49 tokens")).to_be_visible()
    await expect(page.locator(".prose")).to_have_text("part0 part1 part2")


async def test_superseded_is_told_with_a_way_back(open_page: OpenPage, peer: Peer):
    """A close that means stop leaves a notice and a button, and no reconnect loop."""
    watched, socket = await opened(open_page, peer)
    await socket.close(4003)
    await expect(watched.page.get_by_text("This chat was taken over by another connection.")).to_be_visible()
    assert peer.sockets.empty()
    await watched.page.get_by_role("button", name="Connect").click()
    await (await peer.socket()).welcome()


async def test_a_running_answer_is_taken_up_after_a_reload(open_page: OpenPage, peer: Peer):
    """The list of messages names the running request; the page attaches to it from its start."""
    stored(peer)
    peer.messages[CHAT] = [message("user", "Hi"), message("assistant", "", "running", usage=None)]
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    attach = await socket.hear("attach")
    assert (attach["id"], attach["o"]) == (REQUEST, 0)
    await socket.tell("attached", g=1, id=REQUEST, epoch=1, **{"from": 1}, head=2, state="running")
    await socket.delta("All of it", 1, 2)
    await expect(watched.page.locator(".prose")).to_have_text("All of it")
    await expect(watched.page.get_by_role("button", name="Stop")).to_be_visible()
    await socket.end("All of it", 3)
    await expect(watched.page.get_by_text("49 tokens")).to_be_visible()


async def test_an_answer_goes_on_while_another_chat_is_open(open_page: OpenPage, peer: Peer):
    """Leaving a chat detaches nothing: coming back shows all that arrived meanwhile, still growing."""
    stored(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await expect(page.locator(".prose")).to_be_visible()
    await write(page, "More")
    id = await socket.accept()
    await socket.delta("begun ", 1)
    await expect(page.locator(".prose").last).to_have_text("begun")
    await page.get_by_role("link", name="A long title").click()
    await expect(page.get_by_text("Long ago")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await socket.delta("and on", 2, p=6)
    peer.messages[CHAT] += [message("user", "More"), message("assistant", "", "running", request_id=id)]
    await page.get_by_role("link", name="Rainbows").click()
    await expect(page.locator(".prose").last).to_have_text("begun and on")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await socket.end("begun and on", 3)
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_chats_are_listed_opened_and_deleted(open_page: OpenPage, peer: Peer):
    """Days as headings; deleting asks first; the open chat gives way to a new one."""
    stored(peer)
    watched, _ = await opened(open_page, peer)
    page = watched.page
    await expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    await expect(page.get_by_role("navigation").get_by_role("heading")).to_have_text(["Today", "Last 7 days"])
    await page.get_by_role("link", name="Rainbows").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rainbows")
    await page.get_by_role("button", name="Delete “Rainbows”").click()
    await page.get_by_role("button", name="Keep it").click()
    await expect(page.get_by_role("link", name="Rainbows")).to_be_visible()
    await page.get_by_role("button", name="Delete “Rainbows”").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("link", name="Rainbows")).to_have_count(0)
    await expect(page.get_by_role("heading", level=1)).to_have_text("New chat")
    await page.goto(f"{peer.url}/#/{REQUEST}")
    await expect(page.get_by_text("There is no such chat.")).to_be_visible()


async def test_copy_puts_the_source_on_the_clipboard(open_page: OpenPage, peer: Peer):
    """An answer is copied as its Markdown, a code block as its code."""
    stored(peer)
    permissions = ["clipboard-read", "clipboard-write"]
    watched, _ = await opened(open_page, peer, f"/#/{CHAT}", permissions=permissions)
    page = watched.page
    await page.get_by_role("button", name="Copy", exact=True).click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == MARKDOWN
    await page.get_by_role("button", name="Copy py code").click()
    await expect(page.locator(".copy-code")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == "print(1)"


async def test_enter_sends_and_shift_enter_starts_a_line(open_page: OpenPage, peer: Peer):
    """The field grows with its lines; blanks are not sent; the chosen model is asked and remembered."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    field = page.get_by_label("Message", exact=True)
    await write(page, "   ")
    await field.fill("one")
    before = await field.bounding_box()
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    after = await field.bounding_box()
    assert before
    assert after
    assert after["height"] > before["height"]
    await page.get_by_label("Model").select_option("smollm2-large")
    await field.press("Enter")
    send = await socket.hear("send")
    assert (send["content"], send["model"]) == ("one\ntwo", "smollm2-large")
    await page.reload()
    await expect(page.get_by_label("Model")).to_have_value("smollm2-large")


async def test_a_suggestion_is_a_first_message(open_page: OpenPage, peer: Peer):
    """The empty page offers questions; choosing one asks it."""
    watched, socket = await opened(open_page, peer)
    await watched.page.get_by_role("button", name="Plan a weekend in Lisbon for two").click()
    assert (await socket.hear("send"))["content"] == "Plan a weekend in Lisbon for two"
    await expect(watched.page.get_by_role("heading", name="What would you like to know?")).to_be_hidden()


async def test_reading_back_is_not_disturbed(open_page: OpenPage, peer: Peer):
    """Text that arrives scrolls along only for who is at the end; a button leads back there."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Long")
    await socket.accept()
    lines = "".join(f"line {n}\n\n" for n in range(80))
    await socket.delta(lines, 1)
    await expect(page.get_by_text("line 79")).to_be_in_viewport()
    await page.locator("#scroller").evaluate("(scroller) => scroller.scrollTo(0, 0)")
    await expect(page.get_by_role("button", name="Go to the latest message")).to_be_visible()
    await socket.delta("more at the end", 2, p=len(lines))
    await expect(page.get_by_text("more at the end")).to_be_attached()
    await expect(page.get_by_text("line 0", exact=True)).to_be_in_viewport()
    await page.get_by_role("button", name="Go to the latest message").click()
    await expect(page.get_by_text("more at the end")).to_be_in_viewport()


async def test_the_theme_follows_the_system_until_it_is_chosen(open_page: OpenPage, peer: Peer):
    """The switch wins over the system and holds over a reload."""
    background = "getComputedStyle(document.body).backgroundColor"
    watched, _ = await opened(open_page, peer, color_scheme="dark")
    page = watched.page
    assert await page.evaluate(background) == "rgb(23, 25, 27)"
    await page.get_by_role("button", name="Use the light theme").click()
    assert await page.evaluate(background) == "rgb(255, 255, 255)"
    await page.reload()
    assert await page.evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing(open_page: OpenPage, peer: Peer, scheme: str, size: str):
    """In every state a person meets: empty, chat, answering, drawer, dialog, notice, signing in."""
    stored(peer)
    options: dict[str, Any] = {"color_scheme": scheme} | (PHONE if size == "phone" else {})
    options["reduced_motion"] = "reduce"
    watched, socket = await opened(open_page, peer, **options)
    page = watched.page
    assert await watched.axe() == []
    if size == "phone":
        await page.get_by_role("button", name="Chats", exact=True).click()
        assert await watched.axe() == []
    await page.get_by_role("link", name="Rainbows").click()
    await expect(page.locator(".prose table")).to_be_visible()
    assert await watched.axe() == []
    await write(page, "More")
    await socket.accept()
    await socket.delta("An answer that", 1)
    await expect(page.get_by_text("An answer that")).to_be_visible()
    assert await watched.axe() == []
    await socket.close(4003)
    await expect(page.get_by_role("button", name="Connect")).to_be_visible()
    assert await watched.axe() == []
    if size == "phone":
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(overflow) == 0
        await page.get_by_role("button", name="Chats", exact=True).click()
    await page.get_by_role("button", name="Delete “Rainbows”").click()
    assert await watched.axe() == []
    peer.signed_in = False
    stranger = await open_page(f"{peer.url}/", **options)
    await expect(stranger.page.get_by_label("API key")).to_be_visible()
    assert await stranger.axe() == []


async def test_the_drawer_holds_the_chats_on_a_phone(open_page: OpenPage, peer: Peer):
    """It opens and closes by button, Escape and backdrop, and keeps the focus inside while it is open."""
    stored(peer)
    watched, _ = await opened(open_page, peer, **PHONE)
    page = watched.page
    link = page.get_by_role("link", name="Rainbows")
    await expect(link).to_be_hidden()
    await page.get_by_role("button", name="Chats", exact=True).click()
    await expect(link).to_be_visible()
    assert await page.evaluate("document.getElementById('main').inert")
    await page.keyboard.press("Escape")
    await expect(link).to_be_hidden()
    assert await page.evaluate("document.activeElement.id") == "menu"
    await page.get_by_role("button", name="Chats", exact=True).click()
    await page.mouse.click(380, 400)
    await expect(link).to_be_hidden()
    await page.get_by_role("button", name="Chats", exact=True).click()
    await link.click()
    await expect(page.locator(".prose")).to_be_visible()
    await expect(link).to_be_hidden()


async def test_signing_out_forgets_the_cookie(open_page: OpenPage, peer: Peer):
    """The session ends with `bye` and the form to sign in comes back."""
    watched, socket = await opened(open_page, peer)
    await watched.page.get_by_role("button", name="Sign out").click()
    await socket.hear("bye")
    await expect(watched.page.get_by_label("API key")).to_be_visible()
