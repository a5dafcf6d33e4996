"""One Chromium for all browser tests, and pages that remember what went wrong on them."""

import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright, expect

from admin.api.callers import TENANTS_SIDE
from core.configuration.settings import Settings
from core.sql.database import Database
from scripts.page import CHAT, CONSOLE, run_vite
from scripts.page import build as build_page
from tests.browser.console_page import running_console
from tests.support.browsers import chromium_path
from tests.support.home import short_folder
from tests.support.patience import HANG_SECONDS, wall_seconds_max
from tests.support.redis import Redis
from tests.support.scripted_peer import Peer, scripted_peer

CACHE = Path(__file__).parents[2] / ".cache"
SHOP_CONFIG = Path(__file__).parent / "ai_sdk_page" / "vite.config.mjs"
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
JUDGE = "(options) => axe.run(document.querySelector('dialog:modal') ?? document, options)"
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
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
        """What axe finds wrong with the page as it is now, or with what is open above it: text behind that
        counts as if it lay on its buttons. The dark theme is other colours on the same page
        (style.css), which each test looks at in the light too: there colours alone are judged."""
        # Evaluated over the debugging protocol, so the page's own policy stays as it is.
        await self.page.evaluate(AXE)
        dark = await self.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        options: dict[str, Any] = {
            "resultTypes": ["violations"],
            **({"runOnly": COLOUR_RULES} if dark else {}),
        }
        found: dict[str, Any] = await self.page.evaluate(JUDGE, options)
        return [
            f"{violation['id']}: {node['html']} {node['failureSummary']}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]


OpenPage = Callable[..., Awaitable[WatchedPage]]
Answer = Callable[[Route], Awaitable[None]]


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    """Headless Chromium: Debian's where there is one, else Playwright's own."""
    with short_folder("chromium") as own:  # for files that it makes when it likes
        environment: dict[str, str | float | bool] = {**os.environ, "TMPDIR": str(own)}
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=chromium_path(), args=FLAGS, env=environment
            )
            yield browser
            await browser.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def plain_context(chromium: Browser) -> AsyncGenerator[BrowserContext]:
    """For pages that need none of their own: a context costs a third of a page's CPU time."""
    yield await new_context(chromium)


async def new_context(chromium: Browser, **options: Any) -> BrowserContext:
    """As all tests have it."""
    settings: dict[str, Any] = {"locale": "en-GB"} | options
    context = await chromium.new_context(**settings)
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(chromium: Browser, plain_context: BrowserContext) -> AsyncGenerator[OpenPage]:
    """Opens `url` in a context whose pages run `script` first: a fresh one, or where neither script nor
    options are given and the test has no other, the shared one, which is then emptied. A page whose clock is
    moved wants its `own`: the clock is the context's. `answer` plays the server. Not `loaded`: the page has
    only begun to come."""
    contexts: list[BrowserContext] = []

    async def open_in_context(
        url: str,
        script: str = "",
        answer: Answer | None = None,
        *,
        own: bool = False,
        loaded: bool = True,
        **options: Any,
    ) -> WatchedPage:
        shares = not (own or script or answer or options or contexts)
        context = plain_context if shares else await new_context(chromium, **options)
        contexts.append(context)
        if script:
            await context.add_init_script(script)
        if answer is not None:
            await context.route("**/*", answer)
        page = await context.new_page()
        watched = WatchedPage(page, "/".join(url.split("/")[:3]))
        await page.goto(url, wait_until="load" if loaded else "commit")
        return watched

    yield open_in_context
    for context in contexts:
        if context is plain_context:
            await emptied(context)
        else:
            await context.close()


async def emptied(context: BrowserContext) -> None:
    """As it was before a test used it."""
    for page in context.pages:
        protocol = await context.new_cdp_session(page)
        origin = "/".join(page.url.split("/")[:3])
        await protocol.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        await page.close()
    await context.unroute_all()
    await context.set_offline(False)
    await context.clear_permissions()
    await context.clear_cookies()


@pytest.fixture(scope="session", autouse=True)
def modules() -> Path:
    """The page is built from its sources as they are, once a run; the folder has each of its modules under
    its own name, which a test imports as `/web/NAME.js`. Packages are found there as on the page."""
    folder = CACHE / "page-modules"
    build_page()
    build_page(CHAT, folder, "modules")
    return folder


@pytest.fixture(scope="session")
def built_console() -> None:
    """The console's page as its sources are."""
    build_page(CONSOLE)


@pytest_asyncio.fixture(loop_scope="session")
async def console(built_console: None, settings: Settings, sqlite: Database) -> AsyncGenerator[str]:
    """A console's address, with its page."""
    async with running_console(settings) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def portal(built_console: None, settings: Settings, sqlite: Database) -> AsyncGenerator[str]:
    """The tenants' portal's address, with its page."""
    async with running_console(settings, TENANTS_SIDE) as url:
        yield url


@pytest.fixture(scope="session")
def shop_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a customer's page, bundled from the README's example with Vercel's AI SDK."""
    folder = tmp_path_factory.mktemp("shop")
    assert run_vite(SHOP_CONFIG, folder) is None
    return folder


# On the loop of the session's Chromium, as whoever asks for them is.
@pytest_asyncio.fixture(loop_scope="session")
async def sqlite(sqlite_template: Path, home: Path) -> AsyncGenerator[Database]:
    """A migrated, empty SQLite database at the home's default place."""
    shutil.copy(sqlite_template, home / "parley.db")
    opened = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    """A client of a real, empty Valkey."""
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def peer(modules: Path) -> AsyncGenerator[Peer]:
    """A server that the test plays by hand."""
    async with scripted_peer(modules) as playing:
        yield playing


@pytest_asyncio.fixture(loop_scope="session")
async def blank(open_page: OpenPage, peer: Peer) -> WatchedPage:
    """An empty page of the server's origin, under its policy."""
    return await open_page(f"{peer.url}/blank")
