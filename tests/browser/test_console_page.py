"""The console's page in Chromium, with the server's answers played."""

from pathlib import Path

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
