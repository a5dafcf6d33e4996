"""The console as tests open it: its page with answers that are played, or all of it on a port."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from playwright.async_api import Page, Route

from admin.api.callers import OPERATORS_SIDE, ApiSide
from admin.console import Console
from core.configuration.settings import Settings
from core.redis.client import connect
from core.sql.database import Database
from core.web import http
from server.api import SecurityHeaders

SHOTS = os.environ.get("PARLEY_TEST_SCREENSHOTS")  # a folder, for eyes
WEB = Path(__file__).parents[2] / "admin" / "web" / "tables"
URL = "http://console.test"
TABLES = f"{URL}/tables/"
STATUS: dict[str, Any] = {
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
Answers = Callable[[str, str], tuple[int, Any]]


def error(message: str) -> dict[str, Any]:
    """A refusal's body."""
    return {"detail": message}


def played(answers: Answers) -> Callable[[Route], Awaitable[None]]:
    """A server at URL with the tables' files; what else is asked, by method and path, is answered by a status
    and JSON."""

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(URL).partition("#")[0]
        file = WEB / (path.removeprefix("/tables/") or "index.html")
        if path.startswith("/tables/"):  # read here: Playwright would begin a thread that stays
            await route.fulfill(body=file.read_bytes(), content_type=guess_type(file.name)[0])
        else:
            status, body = answers(route.request.method, path)
            await route.fulfill(status=status, json=body)

    return answer


@asynccontextmanager
async def running_console(settings: Settings, side: ApiSide = OPERATORS_SIDE) -> AsyncGenerator[str]:
    """The console, or the tenants' portal, over the settings' stores: its address."""
    db, redis = Database(settings.database_endpoint), connect(settings)
    await redis.execute_command("FLUSHALL")
    listener = http.listen("127.0.0.1", 0, "PARLEY_CONSOLE_PORT")
    console = Console(settings, redis, db, side)
    app = SecurityHeaders(console.app(), settings.tls)
    stop = asyncio.Event()
    gate = http.UpgradeGate(settings, "127.0.0.1")
    serving = asyncio.create_task(http.serve(app, listener, stop, gate, ws="none"))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        console.api.end()
        await serving
        await redis.aclose()
        await db.close()


async def shot(page: Page, name: str) -> None:
    """A picture for eyes, where somebody asked for it."""
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)
