"""The console's pages in the browser: one built page under /console, whose script shows the page of the path,
its files under /web, and the tables of before under /tables."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from server.api import POLICY, UNBUILT, PageFiles

WEB = Path(__file__).parent / "web"
BUILT = WEB / "dist"
PAGE = "console.html"
HOME = "/console/"
# The chat page's, and a font of its own.
HEADERS = {"content-security-policy": f"{POLICY}; font-src 'self'"}


async def _home(_request: Request) -> Response:
    """To the console. A browser keeps what stands behind #: a link's code."""
    return RedirectResponse(HOME, 307)


async def _page(request: Request) -> Response:
    """The page, which holds nothing secret."""
    if not (BUILT / PAGE).is_file():
        return PlainTextResponse(UNBUILT, 503)
    reply = await PageFiles(directory=BUILT).get_response(PAGE, request.scope)
    reply.headers.update(HEADERS)
    return reply


def console_pages() -> list[BaseRoute]:
    """The operators' pages."""
    return [
        Route("/", _home, methods=["GET"]),
        Route("/console", _home, methods=["GET"]),
        Route("/console/{path:path}", _page, methods=["GET"]),
        Mount("/web", PageFiles(directory=BUILT, check_dir=False)),
        Mount("/tables", StaticFiles(directory=WEB / "tables", html=True)),
    ]
