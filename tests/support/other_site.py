"""A site of somebody else's: a page with our client's files, and a proxy before a gateway that fails."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from scripts.javascript import ROOT
from tests.support.patience import wait_until

METHODS = ["GET", "PATCH", "DELETE"]
PAGE = "<!doctype html><title>shop</title><p>hello"


@asynccontextmanager
async def other_site(built: Path | None = None) -> AsyncGenerator[str]:
    """Its address, on a free port. `built`: the folder of a page of its own, at `/built/`."""
    routes: list[BaseRoute] = [
        Route("/", lambda _: HTMLResponse(PAGE)),
        Route("/broken/{rest:path}", _broken, methods=METHODS),
        Route("/moved/{rest:path}", _moved, methods=METHODS),
        Mount("/client", StaticFiles(directory=ROOT / "clients" / "js" / "src")),
    ]
    if built is not None:
        routes.append(Mount("/built", StaticFiles(directory=built, html=True)))
    config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    config.load()
    serving = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def _broken(_request: Request) -> Response:
    return HTMLResponse("<html><h1>502 Bad Gateway</h1></html>", 502)


async def _moved(_request: Request) -> Response:
    return RedirectResponse("/")
