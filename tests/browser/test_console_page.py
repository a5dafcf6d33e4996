"""The console's page in Chromium, with the server's answers played."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WEB = Path(__file__).parents[2] / "admin" / "web"
URL = "http://console.test"
STATUS = {
    "now_ms": 0,
    "pool": "default",
    "workers": [],
    "waiting": {},
    "running": [],
    "running_total": 0,
    "ended_unread": 0,
    "quarantined": 0,
    "usage": [],
}


async def test_an_operator_signs_out(chromium: Browser):
    """The button is there for who is signed in, ends the session, and is gone after that."""
    signed_in = True

    async def answer(route: Route) -> None:
        nonlocal signed_in
        path = route.request.url.removeprefix(URL)
        if path == "/":
            await route.fulfill(path=WEB / "console.html")
        elif path.startswith("/web/"):
            await route.fulfill(path=WEB / path.removeprefix("/web/"))
        elif path == "/api/logout" and route.request.method == "POST":
            signed_in = False
            await route.fulfill(json={})
        elif not signed_in:
            await route.fulfill(status=401, json={"error": {"message": "sign in"}})
        else:
            await route.fulfill(status=200 if path == "/api/status" else 503, json=STATUS)

    context = await chromium.new_context()
    try:
        page = await context.new_page()
        await page.route("**/*", answer)
        await page.goto(URL)
        button = page.get_by_role("button", name="Sign out")
        await expect(button).to_be_visible()
        await button.click()
        await expect(page.get_by_text("Not signed in")).to_be_visible()
        await expect(button).to_be_hidden()
        assert not signed_in
    finally:
        await context.close()


async def test_a_link_that_does_not_sign_in_says_why(chromium: Browser):
    """Not only that a link is needed."""
    why = "too many failed sign-ins from this address: try again after 2000 ms"

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(URL).partition("#")[0]
        if path == "/":
            await route.fulfill(path=WEB / "console.html")
        elif path.startswith("/web/"):
            await route.fulfill(path=WEB / path.removeprefix("/web/"))
        else:
            refused = path == "/api/login"
            message = why if refused else "sign in with a link"
            await route.fulfill(status=429 if refused else 401, json={"error": {"message": message}})

    context = await chromium.new_context()
    try:
        page = await context.new_page()
        await page.route("**/*", answer)
        await page.goto(f"{URL}/")
        await expect(page.get_by_text("sign in with a link")).to_be_visible()
        await page.goto(f"{URL}/#o=c0de")  # in the same tab, where only what is behind # changes
        await expect(page.get_by_text(why)).to_be_visible()
        assert page.url == f"{URL}/"
    finally:
        await context.close()


async def test_amounts_are_shown_whole(chromium: Browser):
    """Of the last day, too: what is under a millionth is not nothing; sums that no float holds are exact."""
    usage = {"tenant": "t1", "name": "acme", "requests": 1, "input_tokens": 1, "output_tokens": 1}
    usage |= {"cost_nano": "9007199254740993000", "currency": "usd", "owed_nano": "400"}

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(URL)
        if path == "/":
            await route.fulfill(path=WEB / "console.html")
        elif path.startswith("/web/"):
            await route.fulfill(path=WEB / path.removeprefix("/web/"))
        else:
            await route.fulfill(
                status=200 if path == "/api/status" else 503, json={**STATUS, "usage": [usage]}
            )

    context = await chromium.new_context()
    try:
        page = await context.new_page()
        await page.route("**/*", answer)
        await page.goto(URL)
        await expect(page.get_by_text("9007199254.740993 USD", exact=True)).to_be_visible()
        await expect(page.get_by_text("0.0000004 USD", exact=True)).to_be_visible()
        await expect(page.get_by_text("Cost before corrections")).to_be_visible()
    finally:
        await context.close()


async def test_an_operator_asks_about_one_request(chromium: Browser):
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

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(URL)
        if path == "/":
            await route.fulfill(path=WEB / "console.html")
        elif path.startswith("/web/"):
            await route.fulfill(path=WEB / path.removeprefix("/web/"))
        elif path == "/api/requests/r1?tenant=acme%20%26%20co":
            await route.fulfill(json=found)
        elif path.startswith("/api/requests/"):
            await route.fulfill(status=400, json={"error": {"message": "nobody knows a request"}})
        else:
            await route.fulfill(status=200 if path == "/api/status" else 503, json=STATUS)

    context = await chromium.new_context()
    try:
        page = await context.new_page()
        await page.route("**/*", answer)
        await page.goto(URL)
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
    finally:
        await context.close()
