"""The one place that turns an unexpected exception of a route or upgrade into a reply and a log line."""

from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import Refused
from core.observability import error_facts
from core.observability.telemetry import logger
from server.http.replies import on_refused, refused_reply
from server.protocol.codes import CloseCode, ErrorCode, refusal

RESPONSE_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
API = ("/v1/", "/api/")
NO_PATH = "there is nothing at this path"
PROBLEM = "something went wrong here that is not your fault: try again"

log = logger(__name__)


def guarded(routes: list[BaseRoute]) -> ASGIApp:
    """An application of these routes. Guard answers all exceptions but refusals."""
    handlers = {Refused: on_refused, HTTPException: on_unrouted}
    return Guard(ExceptionMiddleware(Router(routes=routes, redirect_slashes=False), handlers=handlers))


async def on_unrouted(request: Request, error: Exception) -> Response:
    """Reply to an unknown path or method: in the API an error like all others of it."""
    assert isinstance(error, HTTPException)
    if not request.scope["path"].startswith(API):
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    methods = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
    reply = refused_reply(
        refusal(ErrorCode.BAD_REQUEST, f"this path takes {methods}" if methods else NO_PATH),
        error.status_code,
    )
    if methods:
        reply.headers["allow"] = methods
    return reply


class Guard:
    """Answers `internal` where an application raises, and logs the exception's type and place."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. A reply that has begun is cut short."""
        begun = False

        async def noticing(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] in RESPONSE_STARTS
            await send(message)

        scope["app"] = self  # so that routes raise what they do not serve, for on_unrouted
        try:
            await self._app(scope, receive, noticing)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  (this is what it is for)
            failed(scope, error)
            if not begun:
                await _answer(error)(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": CloseCode.INTERNAL, "reason": ""})


def failed(scope: Scope, error: Exception) -> None:
    """Log the one line. The endpoint's name is from our code; the path is the stranger's."""
    endpoint = getattr(scope.get("endpoint"), "__qualname__", None)
    log.error(
        "http.call_failed", transport=scope["type"], endpoint=endpoint, **error_facts.error_facts(error)
    )


def _answer(error: Exception) -> Response:
    away = isinstance(error, RedisError | DBAPIError | PoolTimeout | OSError)  # a store does not answer
    return refused_reply(refusal(ErrorCode.INTERNAL, PROBLEM), 503 if away else 500)
