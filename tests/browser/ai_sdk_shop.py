"""The site of a customer with Vercel's AI SDK: its page in Chromium, and its server, which makes tickets."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from playwright.async_api import Browser, Locator, Page, Route

from tests.browser.conftest import new_context

Tickets = Callable[[], Awaitable[str]]


class ShopPage:
    """The README's chat in a tab."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @property
    def answers(self) -> Locator:
        """Of the model."""
        return self.page.locator("p.assistant")

    @property
    def questions(self) -> Locator:
        """Of the user."""
        return self.page.locator("p.user")

    async def write(self, text: str) -> None:
        """Send a turn."""
        await self.page.get_by_label("Message").fill(text)
        await self.page.get_by_role("button", name="Send").click()

    async def get(self, script: str, *given: Any) -> Any:
        """What a function of the page says."""
        return await self.page.evaluate(script, list(given))


@asynccontextmanager
async def open_shop(
    chromium: Browser, shop: str, gateway: str, tickets: Tickets, **given: Any
) -> AsyncGenerator[ShopPage]:
    """Its page, whose transport has the options `given`; `id` is the chat's."""
    given = {"url": f"{gateway.replace('http', 'ws')}/v1/ws", "id": "rivers"} | given

    async def ticket(route: Route) -> None:
        try:
            await route.fulfill(json={"ticket": await tickets()})
        except httpx.TransportError:
            await route.fulfill(status=502, body="<h1>Bad Gateway</h1>")

    context = await new_context(chromium)
    try:
        await context.route("**/my/ticket", ticket)
        passing = "if (given.pass) { const { pass } = given; given.pass = async () => pass; }"
        await context.add_init_script(f"globalThis.given = {json.dumps(given)}; {passing}")
        opened = ShopPage(await context.new_page())
        await opened.page.goto(f"{shop}/built/")
        yield opened
        assert opened.errors == []
    finally:
        await context.close()


async def ticket_of(gateway: str, key: str, **asked: Any) -> dict[str, str]:
    """What the shop's server gets for its user Ann."""
    async with httpx.AsyncClient() as http:
        headers, body = {"authorization": f"Bearer {key}"}, {"user": "ann", **asked}
        return (await http.post(f"{gateway}/v1/tickets", headers=headers, json=body)).json()
