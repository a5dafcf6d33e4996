"""`python -m chaos bench page`: how soon one may write on the chat page over a poor line, and what it loads.

The built page under the gateway's own headers, in Chromium, which slows each answer down; what a gateway says
of a signed-in person is made up. Needs Playwright (requirements/test.txt).
"""

import asyncio
import re
import shutil
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click
import uvicorn
from playwright.async_api import Browser, async_playwright
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from chaos.figures.figures import Figure, json_option, progress, show
from server.http import web_files
from server.http.app import SecurityHeaders
from server.http.web_files import BUILT, web_routes

BYTES_PER_SECOND = 20_000
ROUND_TRIP_MS = 800
BEFORE_BYTES_MAX = 45_000
WITH_PARSER_BYTES_MAX = 90_000
TAKES_TEXT_SECONDS_MAX = 6.0
READY_SECONDS_MAX = 120.0
TYPED = "How do rainbows form?"
SAID = {
    "/v1/me": {"tenant": "t", "project": "p", "user": "u", "person": "id"},
    "/v1/models": {"models": []},
    "/v1/conversations": {"conversations": [], "cursor": None},
}


@dataclass(frozen=True)
class PageWeight:
    """Bytes of JavaScript, by brotli: before the composer works, and with the parser of answers. A formula's
    needs come with the first one."""

    before: int
    with_parser: int


@dataclass(frozen=True)
class PageLoad:
    """Seconds from the address to a composer that takes text, and to one that sends."""

    takes_text: float
    sends: float


@click.command("page")
@click.option("--runs", type=click.IntRange(1, 50), default=3, show_default=True)
@json_option
def page(runs: int, as_json: bool) -> None:
    """When the chat page takes text at 20 kB/s and 800 ms a round trip, and how much JavaScript it has."""
    if not (BUILT / "index.html").is_file():
        raise click.ClickException("the page was not built: run .venv/bin/python -m scripts.page")
    loads = asyncio.run(_measured(runs))
    show("The chat page over a poor line", figures_of(weight(), loads), as_json)


def weight() -> PageWeight:
    """Of the built page."""
    sizes = {path.name.removesuffix(".br"): path.stat().st_size for path in BUILT.glob("assets/*.js.br")}
    asked = set(re.findall(r'"/web/assets/([^"]+\.js)"', (BUILT / "index.html").read_text()))
    parser = [size for name, size in sizes.items() if not name.startswith("temml")]
    return PageWeight(sum(sizes[name] for name in asked), sum(parser))


def figures_of(weight: PageWeight, loads: list[PageLoad]) -> list[Figure]:
    """What is printed."""
    worst = max(each.takes_text for each in loads)
    return [
        Figure("JavaScript before the composer works, brotli", weight.before, "bytes", most=BEFORE_BYTES_MAX),
        Figure("JavaScript with the parser, brotli", weight.with_parser, "bytes", most=WITH_PARSER_BYTES_MAX),
        Figure(f"the composer takes text, worst of {len(loads)}", worst, "s", most=TAKES_TEXT_SECONDS_MAX),
        Figure(f"the composer sends, worst of {len(loads)}", max(each.sends for each in loads), "s"),
    ]


async def _measured(runs: int) -> list[PageLoad]:
    found: list[PageLoad] = []
    async with _served() as url, async_playwright() as playwright:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for number in range(runs):
            found.append(await _load(browser, url))
            progress(f"{number + 1} of {runs}: takes text after {found[-1].takes_text:.2f} s")
        await browser.close()
    return found


async def _load(browser: Browser, url: str) -> PageLoad:
    """One load with nothing kept from an earlier one."""
    context = await browser.new_context()
    context.set_default_timeout(READY_SECONDS_MAX * 1000)
    opened = await context.new_page()
    protocol = await context.new_cdp_session(opened)
    rate = {"downloadThroughput": BYTES_PER_SECOND, "uploadThroughput": BYTES_PER_SECOND}
    await protocol.send("Network.enable")
    await protocol.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": ROUND_TRIP_MS, **rate}
    )
    began = time.monotonic()
    await opened.goto(url, wait_until="commit")
    field = opened.get_by_label("Message", exact=True)
    await field.press_sequentially(TYPED)
    takes_text = time.monotonic() - began
    await opened.locator("body[data-view=chat]").wait_for()
    sends = time.monotonic() - began
    if await field.input_value() != TYPED:
        raise click.ClickException("what was typed while the page loaded is not there any more")
    await context.close()
    return PageLoad(takes_text, sends)


@asynccontextmanager
async def _served() -> AsyncGenerator[str]:
    """The page, and somebody who is signed in."""

    async def told(request: Request) -> JSONResponse:
        return JSONResponse(SAID[request.url.path])

    routes = [Route("/", web_files.page), *(Route(path, told) for path in SAID), *web_routes()]
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    await serving
