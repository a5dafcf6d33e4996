"""Routes that pages of the sites in PARLEY_PUBLIC_ORIGINS may call: with a token that the page shows, and
never with a cookie."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.configuration.settings import Settings
from server.access.authentication import listed_origins

Endpoint = Callable[[Request], Awaitable[Response]]
PREFLIGHT = {
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
READABLE_HEADERS = "retry-after"
SHARED = frozenset({"models", "limits", "conversations"})


def cross_origin(endpoint: Endpoint, settings: Settings, methods: str = "GET") -> Endpoint:
    """The endpoint, for these methods and the OPTIONS that browsers ask before them."""

    preflight = PREFLIGHT | {"access-control-allow-methods": methods}

    async def answer(request: Request) -> Response:
        if request.method != "OPTIONS":
            return await endpoint(request)
        return Response(status_code=204, headers=preflight if _listed(request.headers, settings) else None)

    return answer


class CrossOriginReplies:
    """ASGI middleware that lets listed pages read what these routes answer: also refusals of whatever stands
    before or around them, which a browser would show as a lost network."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or not _is_shared(scope["path"]):
            await self._app(scope, receive, send)
            return
        listed = _listed(Headers(scope=scope), self._settings)

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.add_vary_header("origin")
                if listed is not None:
                    headers["access-control-allow-origin"] = listed
                    headers["access-control-expose-headers"] = READABLE_HEADERS
            await send(message)

        await self._app(scope, receive, send_readable)


def _is_shared(path: str) -> bool:
    first, api, route, *_ = [*path.split("/", 3), "", ""]
    return (first, api) == ("", "v1") and route in SHARED


def _listed(headers: Headers, settings: Settings) -> str | None:
    """The caller's Origin where it is listed, word by word; None for all others."""
    origin = headers.get("origin")
    return origin if origin in listed_origins(settings) else None
