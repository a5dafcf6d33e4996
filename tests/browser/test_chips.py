"""Placeholders of what safety took out, on the chat page: from flags alone, wherever they stand."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.chat_page import PHONE, opened, write
from tests.browser.conftest import OpenPage
from tests.browser.flagged_answers import ANSWER, OWN, chips, flags_of, history, said
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

REMOVED = "Removed before it reached you: 1 e-mail address, 1 phone number, 2 IBANs, 1 key."


async def test_chips_come_from_flags_and_never_show_as_text_before(open_page: OpenPage, peer: Peer):
    """A placeholder waits for its flag, which comes just behind it; one that the model wrote is text as soon
    as anything else follows it."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Who?")
    await socket.accept()
    await socket.delta("Ask [EMAIL_1]", 1)
    await expect(page.locator(".prose")).to_have_text("Ask")
    await expect(page.locator(".missing")).to_be_hidden()
    [flag] = flags_of("Ask [EMAIL_1]")
    await socket.tell("event", g=1, o=2, k="flagged", v=flag)
    await expect(chips(page)).to_have_text(["e-mail 1"])
    await expect(page.locator(".missing")).to_have_text("Removed before it reached you: 1 e-mail address.")
    await socket.delta(f" or {OWN}", 3, p=13)
    await expect(page.locator(".prose")).to_have_text("Ask e-mail 1 or")
    phone = {"category": "phone", "action": "flag", "scope": "tenant", "p": 0, "n": 3}
    await socket.tell("event", g=1, o=4, k="flagged", v=phone)
    await socket.delta(".", 5, p=26)
    await expect(page.locator(".prose")).to_have_text(f"Ask e-mail 1 or {OWN}.")
    await socket.end(f"Ask [EMAIL_1] or {OWN}.", 6)
    await expect(page.locator(".facts")).to_be_visible()
    await expect(page.locator(".missing")).to_have_text("Removed before it reached you: 1 e-mail address.")
    assert watched.errors == []


async def test_streamed_resumed_and_stored_look_the_same(open_page: OpenPage, peer: Peer):
    """Flags behind their text, after a snap with all of the text, and in a chat's history."""
    looks = list[str]()
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Who?")
    await socket.accept()
    await said(socket, ANSWER)
    await expect(page.locator(".facts")).to_be_visible()
    await expect(page.locator(".missing")).to_have_text(REMOVED)
    await expect(chips(page)).to_have_text(
        ["e-mail 1", "phone 1", "e-mail 1", "IBAN 1", "IBAN 2", "[EMAIL_1]", "[API_KEY_1]", "[EMAIL_1]"]
    )
    await expect(page.locator(".as-is")).to_have_count(0)
    looks.append(await page.locator(".prose").inner_html())

    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Who?")
    await socket.accept()
    await socket.delta("Ask [EMAIL_1]", 1)
    await socket.tell("event", g=1, o=2, k="flagged", v=flags_of("Ask [EMAIL_1]")[0])
    await expect(chips(page)).to_have_count(1)
    await socket.tell("snap", g=1, epoch=1, o=50, x=ANSWER)
    await expect(chips(page)).to_have_count(0)
    for o, flag in enumerate(flags_of(ANSWER), 51):
        await socket.tell("event", g=1, o=o, k="flagged", v=flag)
    await socket.end(ANSWER, 51 + len(flags_of(ANSWER)))
    await expect(page.locator(".facts")).to_be_visible()
    await expect(chips(page)).to_have_count(8)
    await expect(page.locator(".as-is")).to_have_count(0)
    looks.append(await page.locator(".prose").inner_html())

    watched = await history(open_page, peer, ANSWER)
    await expect(chips(watched.page)).to_have_count(8)
    await expect(watched.page.locator(".as-is")).to_have_count(0)
    looks.append(await watched.page.locator(".prose").inner_html())
    await expect(watched.page.locator(".missing")).to_have_text(REMOVED)
    assert len(set(looks)) == 1
    assert watched.errors == []


async def test_names_of_own_rules_are_neither_one_nor_many(open_page: OpenPage, peer: Peer):
    """Their author may have chosen a plural, or no noun at all."""
    watched = await history(open_page, peer, "[CITY_1], [CITY_2], [CITY_1], [PROJECT_NAMES_1], [CARD_1]")
    page = watched.page
    await expect(page.locator(".missing")).to_have_text(
        "Removed before it reached you: 2 × city, 1 × project names, 1 card number."
    )
    await expect(chips(page)).to_have_text(["city 1", "city 2", "city 1", "project names 1", "card 1"])
    await chips(page).nth(3).click()
    await expect(page.get_by_role("dialog", name="Project names, removed").locator("p").last).to_have_text(
        "“project names 1” is the same one all through this answer."
    )


async def test_the_first_of_a_number_is_a_tab_stop_however_the_text_came(open_page: OpenPage, peer: Peer):
    """Read as removed, in the order of the text, also where later blocks came when it was drawn; those in the
    question are others."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "a@b.example?")
    mail = {"category": "email", "action": "redact", "scope": "tenant", "p": 0, "n": 11, "x": "[EMAIL_1]"}
    await socket.accept(flags=[mail])
    await said(socket, ANSWER)
    await expect(page.locator(".facts")).to_be_visible()
    stops = list[str]()
    await page.locator("#scroller").focus()
    for _ in range(6):
        await page.keyboard.press("Tab")
        stops.append(await page.evaluate("document.activeElement.ariaLabel ?? ''"))
    names = ["e-mail 1", "e-mail 1", "phone 1", "IBAN 1", "IBAN 2"]
    assert [stop for stop in stops if stop.endswith("removed")] == [f"{name}, removed" for name in names]


async def test_a_retract_takes_its_chips_along(open_page: OpenPage, peer: Peer):
    """Those that stand before it stay."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Who?")
    await socket.accept()
    await socket.delta("At [CARD_1] or [CARD_2] x", 1)
    for o, flag in enumerate(flags_of("At [CARD_1] or [CARD_2]"), 2):
        await socket.tell("event", g=1, o=o, k="flagged", v=flag)
    await expect(chips(page)).to_have_text(["card 1", "card 2"])
    await socket.tell("retract", g=1, o=4, p=14, category="card", policy="strict")
    await expect(chips(page)).to_have_text(["card 1"])
    await expect(page.locator(".missing")).to_have_text("Removed before it reached you: 1 card number.")


async def test_who_asks_is_told_what_stood_there(open_page: OpenPage, peer: Peer):
    """By mouse or keyboard; Escape closes that alone and stops no answer, and the focus is where it was.
    Those of one number light up together, the first of them is a tab stop."""
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await write(page, "Who?")
    await socket.accept()
    text = "Ask [EMAIL_1], [EMAIL_2] or [EMAIL_1]. `[EMAIL_1]` "
    await socket.delta(text, 1)
    for o, flag in enumerate(flags_of(text, "project"), 2):
        await socket.tell("event", g=1, o=o, k="flagged", v=flag)
    await expect(chips(page)).to_have_count(4)
    assert [await each.get_attribute("tabindex") for each in await chips(page).all()] == [
        None,
        None,
        "-1",
        "-1",
    ]
    await page.mouse.move(0, 0)
    await chips(page).nth(2).hover()
    await expect(page.locator(".chip.lit")).to_have_text(["e-mail 1", "e-mail 1", "[EMAIL_1]"])
    await page.mouse.move(0, 0)
    await expect(page.locator(".chip.lit")).to_have_count(0)

    first = page.get_by_role("button", name="e-mail 1, removed").first
    await first.focus()
    await expect(page.locator(".chip.lit")).to_have_count(3)
    await page.keyboard.press("Enter")
    pop = page.get_by_role("dialog", name="E-mail address, removed")
    await expect(pop).to_be_visible()
    await expect(pop.locator("p")).to_have_text(
        [
            "This project’s safety policy lets none out. It never reached this page.",
            "“e-mail 1” is the same address all through this answer.",
        ]
    )
    await expect(page.locator(".chip.lit")).to_have_count(3)
    await page.keyboard.press("Escape")
    await expect(pop).to_be_hidden()
    await expect(first).to_be_focused()
    await socket.tell("ping", ts=1)
    await socket.hear("pong")
    assert [frame for frame in socket.log if frame["t"] == "cancel"] == []

    await first.click()
    await expect(pop.locator("p").last).to_contain_text("“e-mail 1”")
    await chips(page).nth(1).click()
    await expect(pop.locator("p").last).to_contain_text("“e-mail 2”")
    await chips(page).nth(1).click()
    await expect(pop).to_be_hidden()
    await page.keyboard.press("Escape")
    await socket.hear("cancel")
    assert watched.errors == []


async def test_a_chip_does_not_turn_a_text_round(open_page: OpenPage, peer: Peer):
    """Its word is no letter of the text."""
    watched = await history(open_page, peer, "[EMAIL_1] هو العنوان")
    await expect(chips(watched.page)).to_have_text(["e-mail 1"])
    await expect(watched.page.locator(".prose > p")).to_have_attribute("dir", "rtl")


async def test_copies_hold_the_placeholders(open_page: OpenPage, peer: Peer):
    """Of a selection, of a code block and of the whole answer: columns and lines stay as they are."""
    watched = await history(open_page, peer, ANSWER, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    select = """([from, to]) => {
      const [first, last] = [from, to].map((name) => document.querySelector(name));
      getSelection().setBaseAndExtent(first, 0, last, last.childNodes.length);
    }"""

    async def copied(first: str, last: str) -> str:
        await page.evaluate(select, [first, last])
        await page.keyboard.press("Control+C")
        return await page.evaluate("navigator.clipboard.readText()")

    assert (
        await copied(".prose > p", ".prose > p")
        == f"😀 Write to [EMAIL_1], call [PHONE_1], never [EMAIL_1], not {OWN}."
    )
    assert await copied(".prose .chip", ".prose .chip") == "[EMAIL_1]"
    assert await copied(".prose pre code", ".prose pre code") == "to=[EMAIL_1]   # yours\nkey=[API_KEY_1]"
    across = await copied(".prose > p", ".prose > p:last-child")
    assert [line for line in across.splitlines() if line][-1] == "Set TO=[EMAIL_1] and pay."
    assert "rent\t[IBAN_1]" in across
    assert "e-mail 1" not in across
    await page.get_by_role("button", name="Copy bash code").click()
    await expect(page.get_by_role("button", name="Copy bash code")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == "to=[EMAIL_1]   # yours\nkey=[API_KEY_1]"
    await page.locator(".foot").get_by_role("button", name="Copy", exact=True).click()
    await expect(page.locator(".foot .done")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == ANSWER
    assert await page.locator(".copied").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_axe_finds_nothing_and_lines_keep_their_pitch(
    open_page: OpenPage, peer: Peer, scheme: str, size: str
):
    """With chips, the note of a block, and what stood there open; nothing scrolls sideways."""
    options: dict[str, Any] = {"color_scheme": scheme, "reduced_motion": "reduce"}
    more = {"reason": "blocked", "code": "safety_blocked", "safety": {"category": "email", "scope": "tenant"}}
    text = (
        ANSWER
        + "\n\n"
        + "Ask [EMAIL_1] or somebody else about it. " * 6
        + "\n\n"
        + "Ask some person or somebody. " * 9
    )
    watched = await history(open_page, peer, text, more=more, **options, **(PHONE if size == "phone" else {}))
    page = watched.page
    pitches = await page.evaluate(
        """() => [...document.querySelectorAll(".prose > p")].slice(-2).map((paragraph) => {
          const { height } = paragraph.getBoundingClientRect();
          return height / Math.round(height / 26.4);
        })"""
    )
    assert pitches == pytest.approx([26.4, 26.4], abs=0.05)
    assert await watched.axe() == []
    await chips(page).first.click()
    await expect(page.get_by_role("dialog", name="E-mail address, removed")).to_be_visible()
    assert await watched.axe() == []
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0
    assert watched.errors == []
