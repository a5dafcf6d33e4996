"""The list of signed-in browsers, and what the page says where nobody is let in."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from core.clock import now_ms
from tests.browser.chat_page import PHONE, opened
from tests.browser.conftest import OpenPage
from tests.support.scripted_peer import Frame, Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MINUTE_MS = 60_000
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.5 Mobile/15E148 Safari/604.1"
)
LINUX = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36"
HOSTILE = "<img src=x onerror=alert(1)>" * 7


def session(id: str, agent: str, minutes: int, current: bool = False) -> Frame:
    """One as the server lists it."""
    at_ms = now_ms() - minutes * MINUTE_MS
    facts = {"made_ms": at_ms - 90 * MINUTE_MS, "seen_ms": at_ms, "ends_ms": at_ms + 600 * MINUTE_MS}
    return {"id": id, "user": "ann", "address": "192.0.2.1", "agent": agent, "current": current, **facts}


def signed_in(peer: Peer) -> None:
    """Three real ones and one that says what it likes."""
    peer.sessions = [
        session("s1", LINUX, 0, current=True),
        session("s2", WINDOWS, 5),
        session("s3", IPHONE, 3 * 24 * 60),
        session("s4", HOSTILE, 61),
    ]


async def shown(page: Page) -> None:
    """Open the list, on a phone out of its drawer."""
    if await page.get_by_role("button", name="Chats", exact=True).is_visible():
        await page.get_by_role("button", name="Chats", exact=True).click()
    await page.get_by_role("button", name="Browsers").click()
    await expect(page.get_by_role("dialog", name="Signed-in browsers")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_it_lists_what_is_signed_in(open_page: OpenPage, peer: Peer, scheme: str, size: str):
    """In words, in every theme and width; axe finds nothing, nothing overflows, and it is all keyboard's."""
    signed_in(peer)
    options: dict[str, Any] = {"color_scheme": scheme} | (PHONE if size == "phone" else {})
    watched, _ = await opened(open_page, peer, **options)
    page = watched.page
    await shown(page)
    rows = page.get_by_role("dialog").get_by_role("listitem")
    await expect(rows).to_have_count(4)
    await expect(rows.nth(0)).to_contain_text("Chrome on LinuxThis browser")
    await expect(rows.nth(1)).to_contain_text("Firefox on WindowsLast used 5 minutes ago")
    await expect(rows.nth(2)).to_contain_text("Safari on an iPhoneLast used 3 days ago")
    await expect(rows.nth(3)).to_contain_text(HOSTILE[:40])
    await expect(page.get_by_role("button", name="Close", exact=True)).to_be_focused()
    assert await watched.axe() == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.get_by_role("button", name="Browsers")).to_be_focused()
    assert (watched.errors, watched.strangers) == ([], [])


async def test_one_is_signed_out_by_keyboard(open_page: OpenPage, peer: Peer):
    """It leaves the list, which says so; what fails is told and can be tried again."""
    signed_in(peer)
    watched, _ = await opened(open_page, peer)
    page = watched.page
    await shown(page)
    out = page.get_by_role("button", name="Sign out Firefox on Windows, last used 5 minutes ago")
    peer.away = True
    await out.focus()
    await page.keyboard.press("Enter")
    said = page.get_by_role("dialog").get_by_role("status")
    await expect(said).to_have_text("That did not work: something went wrong. Try again.")
    peer.away = False
    await out.focus()
    await page.keyboard.press("Enter")
    await expect(said).to_have_text("Firefox on Windows was signed out.")
    await expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(3)
    assert [each["id"] for each in peer.sessions] == ["s1", "s3", "s4"]
    assert peer.signed_in


async def test_everywhere_is_here_too(open_page: OpenPage, peer: Peer):
    """The others first; where one of them cannot be ended, nobody is signed out here."""
    signed_in(peer)
    watched, _ = await opened(open_page, peer)
    page = watched.page
    await shown(page)
    peer.away = True
    everywhere = page.get_by_role("button", name="Sign out everywhere")
    await everywhere.click()
    await expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("That did not work")
    assert peer.signed_in
    peer.away = False
    await everywhere.click()
    await expect(page.get_by_label("API key")).to_be_visible()
    assert [each["id"] for each in peer.sessions] == ["s1"]  # which its logout ended
    assert not peer.signed_in


async def test_too_many_sign_ins_say_when_to_come_again(open_page: OpenPage, peer: Peer):
    """In words and seconds."""
    peer.signed_in = False
    peer.signins_after_ms = 4_200
    watched = await open_page(f"{peer.url}/")
    page = watched.page
    await page.get_by_label("API key").fill("pk_good")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_have_text(
        "Too many sign-ins from here. Try again in 5 seconds."
    )


async def test_a_link_in_the_place_of_a_key_is_one_to_open(open_page: OpenPage, peer: Peer):
    """It is sent nowhere, and opening it in the same tab signs in; the form says where links come from."""
    peer.signed_in = False
    watched = await open_page(f"{peer.url}/")
    page = watched.page
    await expect(page.get_by_role("main")).to_contain_text("ask for another where you got it")
    for shown in (f" {peer.url}/#c=c0de", "#c=c0de", "parley.example.com/#c=c0de"):
        await page.get_by_label("API key").fill(shown)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text(
            "This is a sign-in link, not a key. Paste it into the address bar instead."
        )
        await page.evaluate("document.getElementById('sign-in-error').textContent = ''")
    assert peer.logins == []
    await page.goto(f"{peer.url}/#c=c0de")
    await expect(page.locator("body")).to_have_attribute("data-view", "chat")
    assert (peer.logins, watched.errors) == ([{"code": "c0de"}], [])


async def test_who_is_signed_out_from_elsewhere_sees_that_and_no_stale_list(open_page: OpenPage, peer: Peer):
    """It would lie over the notice and its button, which nobody could press."""
    signed_in(peer)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await shown(page)
    peer.revoked = True
    await socket.close(4501, "signed out")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.get_by_text("You were signed out here")).to_be_visible()
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_label("API key")).to_be_visible()
