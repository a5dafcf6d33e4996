"""Somebody else signs in in the same browser: tabs of the person before end, and send nothing as another."""

import json

import pytest
from playwright.async_api import Page, Route, expect

from billing.api import make_link_code, user_names
from billing.tenants.sessions import list_sessions
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.browser.chat_page import opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.server.site import running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.scripted_peer import Peer, Socket

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CHAT = "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01"
DRAFTS = "Object.fromEntries(Object.entries(localStorage).filter(([key]) => key.startsWith('draft:')))"
DEAF = "BroadcastChannel.prototype.postMessage = () => {}"


async def ended(page: Page) -> None:
    """It says so, and shows nothing else."""
    await expect(page.get_by_role("heading", name="Somebody else signed in here")).to_be_visible()
    await expect(page.get_by_role("button")).to_have_text(["Go on as who is signed in now"])
    assert await page.locator("#prompt").input_value() == ""
    shown = await page.evaluate("document.body.innerText + document.title")
    assert ("secret" in shown, "Rainbows" in shown, page.url.endswith("/")) == (False, False, True)


async def signed_in_beside(watched: WatchedPage, peer: Peer, user: str = "bob") -> tuple[Page, Socket]:
    """Another tab, in which somebody else follows a sign-in link."""
    page = await watched.page.context.new_page()
    await page.goto(f"{peer.url}/#c=c0de")
    peer.user = user
    await page.get_by_role("button", name="Sign in as another").click()
    socket = await peer.socket()
    await socket.welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    return page, socket


def chats(peer: Peer) -> None:
    """One."""
    peer.conversations = [{"id": CHAT, "title": "Rainbows", "updated_ms": now_ms(), "running": False}]
    peer.messages[CHAT] = []


async def test_a_text_that_waits_is_not_sent_as_the_next_person(open_page: OpenPage, peer: Peer):
    """The line is back and brings a ticket of somebody else: no socket is opened with it. The way on is the
    page of who is signed in now, on which nothing of it is left. The text went into
    their account before."""
    chats(peer)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await page.context.set_offline(True)
    await socket.close(1012)
    await write(page, "my secret")
    await expect(page.locator("#waits-text")).to_have_text("Sends when you are online")
    peer.user = "bob"
    await page.context.set_offline(False)
    await ended(page)
    assert (await watched.axe(), peer.sockets.empty()) == ([], True)
    kept = await page.evaluate(DRAFTS)
    assert [json.loads(text)["text"] for text in kept.values()] == ["my secret"]
    await page.keyboard.press("Enter")
    socket = await peer.socket()
    await socket.welcome()
    await expect(page.get_by_label("Model")).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert ([frame["t"] for frame in socket.log].count("send"), await page.evaluate(DRAFTS)) == (0, {})


async def test_other_tabs_hear_of_a_sign_in(open_page: OpenPage, peer: Peer):
    """Also where their own line holds: it is closed, and what they had is gone from the screen. Who signs in
    once more as the same ends nothing."""
    chats(peer)
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}")
    page = watched.page
    await write(page, "my secret question")
    await socket.accept()
    await socket.delta("a secret answer", 1)
    await expect(page.get_by_text("a secret answer")).to_be_visible()
    await signed_in_beside(watched, peer, "u")
    await page.get_by_label("Message", exact=True).fill("more secrets")
    beside, _ = await signed_in_beside(watched, peer)
    await ended(page)
    await wait_until(socket.closed.is_set)
    await expect(beside.get_by_role("heading", name="Rainbows", exact=True)).to_be_hidden()
    assert (await beside.evaluate(DRAFTS), watched.errors) == ({}, [])


@pytest.mark.parametrize("act", ["open", "sign out", "browsers"])
async def test_nothing_is_done_as_somebody_else(open_page: OpenPage, peer: Peer, act: str):
    """A tab that heard nothing of it finds out by the first reply: whose chat, session or sign-in it would
    have been is not shown and not touched."""
    chats(peer)
    watched, socket = await opened(open_page, peer)
    page = watched.page
    await expect(page.get_by_role("link", name="Rainbows")).to_be_visible()
    await page.get_by_label("Message", exact=True).fill("my secret")
    peer.user = "bob"
    if act == "open":
        await page.get_by_role("link", name="Rainbows").click()
    else:
        await page.get_by_role("button", name="Sign out" if act == "sign out" else "Browsers").click()
    await ended(page)
    await wait_until(socket.closed.is_set)
    assert peer.signed_in


async def test_a_tab_that_is_left_behind_spoils_no_draft(open_page: OpenPage, peer: Peer):
    """What it stores until it hears that it is over has another name."""
    watched, _ = await opened(open_page, peer, own=True, script=DEAF)
    beside, _ = await signed_in_beside(watched, peer)
    await beside.get_by_label("Message", exact=True).fill("Bob's long draft")
    await watched.page.get_by_label("Message", exact=True).fill("x")
    await beside.reload()
    await (await peer.socket()).welcome()
    await expect(beside.get_by_label("Message", exact=True)).to_have_value("Bob's long draft")
    assert list(await beside.evaluate(DRAFTS)) == ["draft:person-bob:new"]


@pytest.mark.parametrize("user", ["u", "bob"])
async def test_nothing_is_shown_until_it_is_known_who_reads(open_page: OpenPage, peer: Peer, user: str):
    """A sign-in ended, and who is signed in now is asked: until that is answered the draft is hidden."""
    watched, socket = await opened(open_page, peer)
    page, held = watched.page, list[Route]()
    field = page.locator("#prompt")
    await field.fill("my secret")

    async def hold(route: Route) -> None:
        held.append(route)

    await page.route("**/v1/me", hold)
    await socket.close(4501, "over")
    await wait_until(lambda: bool(held))
    await expect(field).to_be_hidden()
    peer.user = user
    await held[0].continue_()
    if user == "bob":
        return await ended(page)
    await expect(field).to_be_focused()
    await expect(field).to_have_value("my secret")


async def test_a_gateway_ends_the_session_before(
    open_page: OpenPage, sqlite: Database, redis: Redis, settings: Settings
):
    """Whose tab heard nothing is cut off, asks who is signed in, and ends; the session is over for good."""
    async with running_site(settings, sqlite, redis) as site:
        keyring, now = site.settings.keyring, now_ms()
        ann, bob = (
            f"{site.url}/#c={make_link_code(keyring, site.tenant, site.key_id, user, now)}"
            for user in ("ann", "bob")
        )
        watched = await open_page(ann, DEAF)
        await watched.page.get_by_label("Message", exact=True).fill("my secret")
        await expect(watched.page.get_by_label("Model")).to_be_visible()
        beside = await watched.page.context.new_page()
        await beside.goto(bob)
        await beside.get_by_role("button", name="Sign in as another").click()
        await ended(watched.page)
        (session,) = await list_sessions(site.database, site.tenant)
        assert await user_names(site.database, site.tenant, {session.user_id}) == {session.user_id: "bob"}
        await expect(beside.get_by_label("Message", exact=True)).to_have_value("")
