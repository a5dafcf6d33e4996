"""One Chromium for all browser tests, and pages that remember what went wrong on them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import axe_core_python
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.support.browsers import chromium_path
from tests.support.patience import HANG_SECONDS, wall_seconds_max
from tests.support.scripted_peer import Peer, scripted_peer

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS = wall_seconds_max(HANG_SECONDS) * 1000  # Chromium knows no lived time
expect.set_options(timeout=PATIENCE_MS)


class WatchedPage:
    """A page with what its console and its network said. Use `.page` to drive it."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.strangers: list[str] = []
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._requested(request.url, origin))

    def _requested(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:", "blob:")):
            self.strangers.append(url)

    async def axe(self) -> list[str]:
        """What axe finds wrong with the page as it is now."""
        # Evaluated over the debugging protocol, so the page's own policy stays as it is.
        await self.page.evaluate(AXE)
        found: dict[str, Any] = await self.page.evaluate("axe.run(document)")
        return [
            f"{violation['id']}: {node['html']} {node['failureSummary']}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]


OpenPage = Callable[..., Awaitable[WatchedPage]]


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    """Headless Chromium: Debian's where there is one, else Playwright's own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        yield browser
        await browser.close()


class Contexts:
    """Browser contexts by their options, shared by tests in turn: making one, and filling its caches, takes
    longer than most tests. What a page could leave to the next one is cleared."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._made: dict[str, BrowserContext] = {}

    async def lend(self, options: dict[str, Any]) -> BrowserContext:
        """One with these options, empty."""
        key = repr(sorted(options.items()))
        if key not in self._made:
            context = self._made[key] = await self._chromium.new_context(**options)
            context.set_default_timeout(PATIENCE_MS)
        return self._made[key]

    async def empty(self, origins: set[str]) -> None:
        """Close all pages; forget what these origins stored, and all cookies."""
        for context in self._made.values():
            if not context.pages:
                continue
            session = await context.new_cdp_session(await context.new_page())
            for origin in origins:
                await session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
            for page in context.pages:
                await page.close()
            await context.clear_cookies()
            await context.clear_permissions()

    async def close(self) -> None:
        """All of them."""
        for context in self._made.values():
            await context.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def contexts(chromium: Browser) -> AsyncGenerator[Contexts]:
    """Those of the whole run."""
    made = Contexts(chromium)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(contexts: Contexts) -> AsyncGenerator[OpenPage]:
    """Opens `url` in a page that runs `script` first, as a browser that was never there."""
    origins: set[str] = set()

    async def open_in_context(url: str, script: str = "", **options: Any) -> WatchedPage:
        context = await contexts.lend({"locale": "en-GB"} | options)
        page = await context.new_page()
        await page.add_init_script(script)
        origin = "/".join(url.split("/")[:3])
        origins.add(origin)
        watched = WatchedPage(page, origin)
        await page.goto(url)
        return watched

    yield open_in_context
    await contexts.empty(origins)


@pytest_asyncio.fixture(loop_scope="session")
async def peer() -> AsyncGenerator[Peer]:
    """A server that the test plays by hand."""
    async with scripted_peer() as playing:
        yield playing


@pytest_asyncio.fixture(loop_scope="session")
async def blank(open_page: OpenPage, peer: Peer) -> WatchedPage:
    """An empty page of the server's origin, under its policy."""
    return await open_page(f"{peer.url}/blank")
