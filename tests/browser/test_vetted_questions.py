"""Questions that a safety policy redacted or refused, on the chat page: in the bubble, above the composer, in
the list of chats."""

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.flagged_answers import CHAT, OWN, flags_of, stored
from tests.support.scripted_peer import Frame, Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TYPED = f"😀 Is 4111 1111 1111 1111 of\nann@example.org? Not {OWN} \uee00"
READ = f"😀 Is [CARD_1] of\nann@example.org? Not {OWN} \uee00"
CARD: Frame = {"category": "card", "action": "redact", "scope": "tenant", "p": 5, "n": 19, "x": "[CARD_1]"}
MAIL: Frame = {"category": "email", "action": "flag", "scope": "tenant", "p": 28, "n": 15}
POLICIES = {"tenant": "Your organization’s", "project": "This project’s", "platform": "This service’s"}


def chips(page: Page) -> Locator:
    """The placeholders in questions."""
    return page.locator(".bubble .chip")


def titles(page: Page) -> Locator:
    """The list of chats."""
    return page.locator("#conversations .name")


async def asked_before(open_page: OpenPage, peer: Peer, text: str, **options: Any) -> WatchedPage:
    """The page with a stored question. `scope`: whose policy redacted it."""
    flags = flags_of(text, options.pop("scope", "tenant"))
    question, answer = stored("No.")
    peer.messages[CHAT] = [question | {"content": text, "flags": flags}, answer]
    watched, _ = await opened(open_page, peer, f"/#/{CHAT}", **options)
    await expect(watched.page.locator(".facts")).to_be_visible()
    return watched


async def refuse(socket: Socket, **more: Any) -> None:
    """Answer the next send with a refusal of the card in it."""
    send = await socket.hear("send")
    place = {"category": "card", "scope": "tenant", "p": 5, "n": 19} | more
    facts = {"re": "send", "id": send["id"], "message": "not sent", "retry": False}
    await socket.tell("error", code="safety_blocked", safety=place, **facts)


async def test_a_redacted_question_follows_at_once(open_page: OpenPage, peer: Peer):
    """A chip where the model got a placeholder, by the entries alone: what was only flagged and what was
    typed like one stay text. The same after a reload."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, TYPED)
    bubble = page.locator(".bubble")
    await expect(bubble).to_have_text(TYPED)
    await expect(chips(page)).to_have_count(0)
    await socket.accept(flags=[CARD, MAIL])
    await expect(chips(page)).to_have_text(["card 1"])
    await expect(bubble).to_have_text(READ.replace("[CARD_1]", "card 1"))
    live = await bubble.inner_html()
    watched = await asked_before(open_page, peer, READ)
    assert await watched.page.locator(".bubble").inner_html() == live
    assert watched.errors == []


async def test_what_arrived_redacted_is_not_offered_again(open_page: OpenPage, peer: Peer):
    """The page was left before it heard so: what it kept of the question says something else by now."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, TYPED)
    send = await socket.hear("send")
    ids = {"request_id": send["id"]}
    question, answer = stored("No.")
    question |= ids | {"content": READ, "flags": flags_of(READ)}
    peer.messages[send["conversation"]] = [question, answer | ids]
    await page.reload()
    await (await peer.socket()).welcome()
    await expect(page.locator(".facts")).to_be_visible()
    await expect(chips(page)).to_have_text(["card 1"])
    await expect(page.locator(".question")).to_have_count(1)
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert await page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("how", ["listed", "sent again"])
async def test_what_was_accepted_unheard_is_shown_as_read(open_page: OpenPage, peer: Peer, how: str):
    """The connection was cut before it heard so. Whether the server lists the turn or takes it a second
    time, it says no more what was found: the history says it, to bubble and title, without a reload."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, TYPED)
    send = await socket.hear("send")
    ids = {"request_id": send["id"]}
    question, answer = stored("")
    peer.messages[send["conversation"]] = [
        question | ids | {"content": READ, "flags": flags_of(READ)},
        answer | ids | {"status": "running"},
    ]
    title = f"😀 Is [CARD_1] of ann@example.org? Not {OWN} \uee00"
    peer.conversations = [{"id": send["conversation"], "title": title, "updated_ms": 0, "running": True}]
    peer.cut()
    socket = await peer.socket()
    listed = {"g": 1, "id": send["id"], "epoch": 1, "from": 1, "head": 0, "state": "queued"}
    await socket.welcome(requests=[listed] if how == "listed" else [])
    if how == "sent again":
        await socket.accept(dup=True)
    await expect(chips(page)).to_have_text(["card 1"])
    await expect(titles(page)).to_have_text([title])


async def test_places_move_by_what_was_put_there(open_page: OpenPage, peer: Peer):
    """Entries have the places of what was typed; a number's first chip is a tab stop."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "😀a1 or b2, not 😀a1, nor [CARD_1]")
    places = [(1, 2, "[CARD_1]"), (7, 2, "[A_LONG_NAME_1]"), (16, 2, "[CARD_1]")]
    names = ["card", "a_long_name", "card"]
    flags = [
        CARD | {"category": of, "p": p, "n": n, "x": x} for of, (p, n, x) in zip(names, places, strict=True)
    ]
    await socket.accept(flags=flags)
    await expect(page.locator(".bubble")).to_have_text(
        "😀card 1 or a long name 1, not 😀card 1, nor [CARD_1]"
    )
    stops = [await chip.get_attribute("tabindex") for chip in await chips(page).all()]
    assert stops == [None, None, "-1"]
    await chips(page).first.hover()
    await expect(page.locator(".chip.lit")).to_have_text(["card 1", "card 1"])


@pytest.mark.parametrize("scope", POLICIES)
async def test_who_asks_is_told_what_the_model_read(open_page: OpenPage, peer: Peer, scope: str):
    """Whose policy it was; Escape gives the focus back."""
    watched = await asked_before(open_page, peer, "Is it [CARD_1]?", scope=scope)
    page = watched.page
    chip = page.get_by_role("button", name="card 1, removed", exact=True)
    await chip.focus()
    await page.keyboard.press("Enter")
    pop = page.get_by_role("dialog", name="Card number, removed")
    await expect(pop.locator("p")).to_have_text(
        [f"{POLICIES[scope]} safety policy lets none in. The model read “[CARD_1]” in its place."]
    )
    await page.keyboard.press("Escape")
    await expect(pop).to_be_hidden()
    await expect(chip).to_be_focused()


async def test_a_copy_of_a_question_holds_its_placeholders(open_page: OpenPage, peer: Peer):
    """And its lines."""
    permissions = ["clipboard-read", "clipboard-write"]
    watched = await asked_before(open_page, peer, "My  card:\n[CARD_1]", permissions=permissions)
    page = watched.page
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('.bubble'))")
    await page.keyboard.press("Control+C")
    assert await page.evaluate("navigator.clipboard.readText()") == "My  card:\n[CARD_1]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing_and_lines_keep_their_pitch(
    open_page: OpenPage, peer: Peer, scheme: str, size: str
):
    """With chips in a question, and what stood there open."""
    options: dict[str, Any] = {"color_scheme": scheme, "reduced_motion": "reduce"}
    text = "Our card is [CARD_1], in case they take it. " * 6
    watched = await asked_before(open_page, peer, text, **options, **(PHONE if size == "phone" else {}))
    page = watched.page
    pitch = await page.locator(".bubble").evaluate(
        """(bubble) => {
          const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(bubble);
          const lines = bubble.clientHeight - parseFloat(paddingTop) - parseFloat(paddingBottom);
          return lines / parseFloat(lineHeight) % 1;
        }"""
    )
    assert min(pitch, 1 - pitch) < 0.05
    await chips(page).first.hover()
    assert await watched.axe() == []
    await chips(page).first.click()
    await expect(page.get_by_role("dialog", name="Card number, removed")).to_be_visible()
    assert await watched.axe() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0


async def test_a_redacted_first_question_is_the_title_as_history_has_it(open_page: OpenPage, peer: Peer):
    """In the list, above the chat and in the tab. A later question changes no title."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Is  4111 1111 1111 1111\nmine?")
    await expect(titles(page)).to_have_text(["Is 4111 1111 1111 1111 mine?"])
    await socket.accept(flags=[CARD | {"p": 4}])
    await expect(titles(page)).to_have_text(["Is [CARD_1] mine?"])
    await expect(page.locator("#title")).to_have_text("Is [CARD_1] mine?")
    await expect(page).to_have_title("Is [CARD_1] mine? · Parley")
    await socket.delta("No.", 1)
    await socket.end("No.", 2)
    await write(page, "And 4111 1111 1111 1111?")
    await socket.accept(g=2, flags=[CARD | {"p": 4}])
    await expect(chips(page)).to_have_text(["card 1", "card 1"])
    await expect(titles(page)).to_have_text(["Is [CARD_1] mine?"])
    assert watched.errors == []


async def test_of_a_refused_first_question_no_chat_remains(open_page: OpenPage, peer: Peer):
    """Not in the list, not in the address; the next question begins a chat. One that has turns stays."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "😀 Is 4111 1111 1111 1111 mine?")
    await refuse(socket)
    await expect(page.locator("#not-sent")).to_be_visible()
    await expect(titles(page)).to_have_count(0)
    await expect(page.locator("#title")).to_have_text("New chat")
    assert page.url.endswith("/#/")
    await write(page, "Is it mine?")
    await socket.accept()
    await socket.end("", 1)
    await expect(titles(page)).to_have_text(["Is it mine?"])
    at = page.url
    assert not at.endswith("/#/")
    await write(page, "😀 Is 4111 1111 1111 1111 mine?")
    await refuse(socket)
    await expect(page.locator("#not-sent")).to_be_visible()
    await expect(titles(page)).to_have_text(["Is it mine?"])
    assert page.url == at
    await page.reload()
    assert watched.errors == []


@pytest.mark.parametrize(
    ("category", "said"),
    [
        ("card", "lets no card numbers in."),
        ("project_names", "lets nothing in that it calls “project names”."),
    ],
)
async def test_a_refused_question_comes_back_with_its_place(
    open_page: OpenPage, peer: Peer, category: str, said: str
):
    """Above the composer: whose policy, what for, what to do; the place is selected by code points. It goes
    with the first change."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "😀 Is 4111 1111 1111 1111 mine?")
    await refuse(socket, category=category)
    line, field = page.locator("#not-sent"), page.get_by_label("Message", exact=True)
    head = f"Not sent: your organization’s safety policy {said}"
    await expect(line.locator("strong")).to_have_text(head)
    await expect(line).to_contain_text("Nothing was stored or billed. Change the text and send it again.")
    await expect(field).to_have_value("😀 Is 4111 1111 1111 1111 mine?")
    await expect(page.locator("#log > *")).to_have_count(0)
    await page.get_by_role("button", name="Show where").click()
    chosen = await field.evaluate("(of) => of.value.slice(of.selectionStart, of.selectionEnd)")
    assert chosen == "4111 1111 1111 1111"
    await page.keyboard.type("it")
    await expect(line).to_be_hidden()
    await expect(field).to_have_value("😀 Is it mine?")
