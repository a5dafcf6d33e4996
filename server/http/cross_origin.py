"""Routes that pages of the sites in PARLEY_PUBLIC_ORIGINS may call: with a token that the page shows, and
never with a cookie."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from core.configuration.settings import Settings
from core.errors import Refused
from server.access.authentication import listed_origins
from server.http.replies import on_refused

Endpoint = Callable[[Request], Awaitable[Response]]
PREFLIGHT = {
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
READABLE_HEADERS = "retry-after"


def cross_origin(endpoint: Endpoint, settings: Settings, methods: str = "GET") -> Endpoint:
    """The endpoint, for these methods and the OPTIONS that browsers ask before them. Refusals can be read,
    too."""

    preflight = PREFLIGHT | {"access-control-allow-methods": methods}

    async def answer(request: Request) -> Response:
        origin = request.headers.get("origin")
        listed = origin if origin in listed_origins(settings) else None
        if request.method == "OPTIONS":
            reply = Response(status_code=204, headers=preflight if listed else None)
        else:
            try:
                reply = await endpoint(request)
            except Refused as refused:
                reply = await on_refused(request, refused)
        reply.headers.add_vary_header("origin")
        if listed is not None:
            reply.headers["access-control-allow-origin"] = listed
            reply.headers["access-control-expose-headers"] = READABLE_HEADERS
        return reply

    return answer
