"""The console's page in Chromium: all of it over real stores, and single answers that are played."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route, expect

from billing.people.invitations import invite
from billing.posting.biller import post
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.browser.chat_page import PHONE
from tests.browser.conftest import OpenPage
from tests.browser.console_page import STATUS, TABLES, error, played, running_console
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def filled(settings: Settings, sqlite_template: Path) -> Settings:
    """Of an installation whose database is migrated."""
    shutil.copy(sqlite_template, settings.home / "parley.db")
    return settings


async def link_to(address: str, settings: Settings) -> str:
    """A link that signs an owner in there."""
    db = Database(settings.database_endpoint)
    try:
        return f"{address}/tables/#p={await staff_code(settings, db)}"
    finally:
        await db.close()


async def book(settings: Settings) -> None:
    """A request of the tenant acme that ended just now."""
    db = Database(settings.database_endpoint)
    tenant = (await create_tenant(db, "acme")).tenant_id
    now = now_ms()
    await post(db, "default", [encode(an_event("r1", tenant, accepted_ms=now - 1_000, ended_ms=now))])
    await db.close()


async def test_an_operator_signs_in_looks_asks_and_signs_out(open_page: OpenPage, filled: Settings):
    """By a link, and then by the keyboard alone: the page shows what is in the stores, breaks nothing of its
    policy, asks nobody else, and axe finds nothing. The link's code is out of the address at once."""
    await book(filled)
    async with running_console(filled) as address:
        watched = await open_page(await link_to(address, filled))
        page = watched.page
        await expect(page.get_by_text(re.compile("^Pool default, "))).to_be_visible()
        assert page.url == f"{address}/tables/"
        usage = page.get_by_role("region", name="Usage in the last 24 hours").get_by_role("row").nth(1)
        await expect(usage).to_contain_text("acme")
        await expect(page.get_by_text("No worker is registered.")).to_be_visible()
        await expect(page.get_by_text("Nobody takes far more than their share.")).to_be_visible()
        assert await watched.axe() == []
        cookies = await page.context.cookies()
        assert cookies
        assert {(each.get("httpOnly"), each.get("sameSite")) for each in cookies} == {(True, "Strict")}
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Sign out")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.type("r1")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("region", name="Request r1")).to_contain_text("acme")
        assert await watched.axe() == []
        assert (watched.errors, watched.strangers) == ([], [])
        await page.get_by_role("button", name="Sign out").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Not signed in")).to_be_visible()
        await expect(page.get_by_role("region", name="Request r1")).to_be_hidden()


async def test_who_is_not_signed_in_sees_how_to(open_page: OpenPage, filled: Settings):
    """In the dark, on a phone: nothing but that, which axe finds nothing in, and nothing overflows."""
    async with running_console(filled) as address:
        watched = await open_page(f"{address}/tables/", color_scheme="dark", **PHONE)
        await expect(watched.page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await watched.axe() == []
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert await watched.page.evaluate(fits)
        await expect(watched.page.get_by_role("textbox")).to_have_count(0)
        assert watched.strangers == []


async def test_who_is_invited_says_their_name_and_is_in(open_page: OpenPage, filled: Settings):
    """By the address that `parley people invite` prints; it is good once."""
    db = Database(filled.database_endpoint)
    _, code = await invite(db, PLATFORM, "ann@example.com", Role.SUPPORT)
    await db.close()
    async with running_console(filled) as address:
        page = (await open_page(f"{address}/tables/#i={code}")).page
        await page.get_by_label("Your name").fill("Ann")
        await page.get_by_role("button", name="Join").click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        again = (await open_page(f"{address}/tables/#i={code}", own=True)).page
        await again.get_by_label("Your name").fill("Eve")
        await again.get_by_role("button", name="Join").click()
        await expect(again.get_by_text("not good any more")).to_be_visible()


async def test_a_browser_that_keeps_no_cookie_is_told_so(open_page: OpenPage, filled: Settings):
    """Its link was good, and is used up: to be told that a link is needed would lead nowhere."""

    async def without_cookies(route: Route) -> None:
        reply = await route.fetch()
        await route.request.frame.page.context.clear_cookies()
        kept = {name: value for name, value in reply.headers.items() if name != "set-cookie"}
        await route.fulfill(response=reply, headers=kept)

    async with running_console(filled) as address:
        page = (await open_page(await link_to(address, filled), answer=without_cookies)).page
        await expect(page.get_by_text("this browser kept no cookie")).to_be_visible()
        await expect(page.get_by_text("Not signed in")).to_be_visible()


async def test_an_operator_signs_out(open_page: OpenPage):
    """The button is there for who is signed in, ends the session, and is gone after that."""
    signed_in = True

    def answers(method: str, path: str) -> tuple[int, Any]:
        nonlocal signed_in
        if (method, path) == ("POST", "/api/sign-out"):
            signed_in = False
            return 200, {}
        if not signed_in:
            return 401, error("sign in")
        if path == "/api/me":
            return 200, {"csrf": "c5rf"}
        return (200 if path == "/api/status" else 503), STATUS

    page = (await open_page(TABLES, answer=played(answers))).page
    button = page.get_by_role("button", name="Sign out")
    await expect(button).to_be_visible()
    await button.click()
    await expect(page.get_by_text("Not signed in")).to_be_visible()
    await expect(button).to_be_hidden()
    assert not signed_in


async def test_a_link_that_does_not_sign_in_says_why(open_page: OpenPage):
    """Not only that a link is needed."""
    why = "too many failed sign-ins from this address: try again after 2000 ms"

    def answers(_method: str, path: str) -> tuple[int, Any]:
        return (429, error(why)) if path == "/api/sign-in" else (401, error("sign in with a link"))

    page = (await open_page(TABLES, answer=played(answers))).page
    await expect(page.get_by_text("Open a link that signs you in")).to_be_visible()
    await page.goto(f"{TABLES}#p=c0de")  # in the same tab, where only what is behind # changes
    await expect(page.get_by_text(why)).to_be_visible()
    assert page.url == TABLES


async def test_amounts_are_shown_whole(open_page: OpenPage):
    """Of the last day, too: what is under a millionth is not nothing; sums that no float holds are exact."""
    usage = {"tenant": "t1", "name": "acme", "requests": 1, "input_tokens": 1, "output_tokens": 1}
    usage |= {"cost_nano": "9007199254740993000", "currency": "usd", "owed_nano": "400"}

    def answers(_method: str, path: str) -> tuple[int, Any]:
        return (200 if path == "/api/status" else 503), {**STATUS, "usage": [usage]}

    page = (await open_page(TABLES, answer=played(answers))).page
    await expect(page.get_by_text("9007199254.740993 USD", exact=True)).to_be_visible()
    await expect(page.get_by_text("0.0000004 USD", exact=True)).to_be_visible()
    await expect(page.get_by_text("Cost before corrections")).to_be_visible()


async def test_an_operator_asks_about_one_request(open_page: OpenPage):
    """What it was billed, and by whose word; names are text, whatever they say. What nobody knows is said."""
    hostile = "<img src=x onerror=alert(1)>"
    adjusted = {"kind": "adjust", "meter": "output", "quantity": -7, "price_nano": 2_000_000}
    adjusted |= {"amount_nano": -14, "cause": hostile}
    request = {"kind": "usage", "meter": "request", "quantity": 1, "price_nano": 1_000_000_000_000}
    request |= {"amount_nano": 1_000_000, "cause": ""}
    booked: dict[str, Any] = {
        **dict.fromkeys(("user", "key", "model", "pool", "reason", "code"), hostile),
        **{"currency": "usd", "amount_nano": 12, "cost_nano": 26, "owed_nano": None, "claims": 1},
        "lines": [adjusted, request],
        "steps": [{"name": "accepted", "at_ms": 0, "after_ms": 0}],
        "price": {"book": "b", "book_name": "", "version": 1, "why": "the last to begin"},
        "paid": [{"grant": "g1", "kind": "promo", "amount_nano": 12}],
        "months": [{"month": "2026-10", "amount_nano": 12, "closed_ms": None}],
    }
    empty = {"held_back": [], "refused": [], "holds": None, "in_pool": None, "unread": ""}
    found = {"id": "r1", "tenant": "t1", "tenant_name": "acme", "state": "booked", "booked": booked, **empty}

    def answers(_method: str, path: str) -> tuple[int, Any]:
        if path == "/api/explained/r1?tenant=acme%20%26%20co":
            return 200, found
        if path.startswith("/api/explained/"):
            return 400, error("nobody knows a request")
        return (200 if path == "/api/status" else 503), STATUS

    page = (await open_page(TABLES, answer=played(answers))).page
    await page.get_by_role("textbox", name="Request").fill("r1")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_text("nobody knows a request")).to_be_visible()
    await page.get_by_role("textbox", name="Tenant").fill("acme & co")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_text("0.000000012 USD, before corrections 0.000000026 USD")).to_be_visible()
    await expect(page.get_by_text("2026-10: 0.000000012 USD, not closed yet")).to_be_visible()
    await expect(page.get_by_text("-7", exact=True)).to_be_visible()
    await expect(page.get_by_text("0.001 USD each", exact=True)).to_be_visible()
    await expect(page.get_by_text("0.002 USD a million", exact=True)).to_be_visible()
    assert await page.locator("#found img").count() == 0
    await page.set_viewport_size({"width": 390, "height": 844})
    facts = page.get_by_role("region", name="Request r1")
    assert await facts.evaluate("box => box.scrollWidth <= box.clientWidth"), "read without scrolling"
    await page.get_by_role("button", name="Close").click()
    await expect(facts).to_be_hidden()
    await expect(page.get_by_role("textbox", name="Request")).to_be_focused()
