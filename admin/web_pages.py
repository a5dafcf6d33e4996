"""The pages in the browser: one built page for operators under /console, one for tenants under /portal.

Its script shows the page of the path. Files are under /web, the operators' tables of before under /tables.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from server.api import POLICY, UNBUILT, PageFiles

Handler = Callable[[Request], Awaitable[Response]]
WEB = Path(__file__).parent / "web"
BUILT = WEB / "dist"
# The chat page's, and a font of its own.
HEADERS = {"content-security-policy": f"{POLICY}; font-src 'self'"}


def console_pages() -> list[BaseRoute]:
    """The operators' pages."""
    home, page = _entry("console")
    return [
        Route("/", home, methods=["GET"]),
        Route("/console", home, methods=["GET"]),
        Route("/console/{path:path}", page, methods=["GET"]),
        Mount("/web", PageFiles(directory=BUILT, check_dir=False)),
        Mount("/tables", StaticFiles(directory=WEB / "tables", html=True)),
    ]


def portal_pages() -> list[BaseRoute]:
    """The tenants' pages."""
    home, page = _entry("portal")
    return [
        Route("/", home, methods=["GET"]),
        Route("/portal", home, methods=["GET"]),
        Route("/portal/{path:path}", page, methods=["GET"]),
        Mount("/web", PageFiles(directory=BUILT, check_dir=False)),
    ]


def _entry(name: str) -> tuple[Handler, Handler]:
    """The way to a page, and the page itself."""

    async def home(_request: Request) -> Response:
        """To the page. A browser keeps what stands behind #: a link's code."""
        return RedirectResponse(f"/{name}/", 307)

    async def page(request: Request) -> Response:
        """The page, which holds nothing secret."""
        if not (BUILT / f"{name}.html").is_file():
            return PlainTextResponse(UNBUILT, 503)
        reply = await PageFiles(directory=BUILT).get_response(f"{name}.html", request.scope)
        reply.headers.update(HEADERS)
        return reply

    return home, page
