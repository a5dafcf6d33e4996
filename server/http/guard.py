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
from server.http.replies import ReplyOf, gateways_reply, on_refused
from server.protocol.codes import CloseCode, ErrorCode, refusal

RESPONSE_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
API = ("/v1/", "/api/")
NO_PATH = "there is nothing at this path"
PROBLEM = "something went wrong here that is not your fault: try again"

log = logger(__name__)


def guarded(routes: list[BaseRoute], reply_of: ReplyOf = gateways_reply) -> ASGIApp:
    """An application of these routes. Guard answers all exceptions but refusals. `reply_of`: how a path
    says that it refuses."""

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _unrouted(request.scope["path"], error, reply_of)

    router = Router(routes=routes, redirect_slashes=False)
    return Guard(ExceptionMiddleware(router, {Refused: on_refused, HTTPException: unrouted}), reply_of)


def _unrouted(path: str, error: HTTPException, reply_of: ReplyOf) -> Response:
    """Reply to an unknown path or method: in the API an error like all others of it."""
    if not path.startswith(API):
        return PlainTextResponse(error.detail, error.status_code, error.headers)
    methods = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
    reply = reply_of(path)(
        refusal(ErrorCode.BAD_REQUEST, f"this path takes {methods}" if methods else NO_PATH),
        error.status_code,
    )
    if methods:
        reply.headers["allow"] = methods
    return reply


class Guard:
    """Answers `internal` where an application raises, and logs the exception's type and place."""

    def __init__(self, app: ASGIApp, reply_of: ReplyOf = gateways_reply) -> None:
        self._app = app
        self._reply_of = reply_of

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
                await self._answer(scope["path"], error)(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": CloseCode.INTERNAL, "reason": ""})

    def _answer(self, path: str, error: Exception) -> Response:
        away = isinstance(error, RedisError | DBAPIError | PoolTimeout | OSError)  # a store does not answer
        return self._reply_of(path)(refusal(ErrorCode.INTERNAL, PROBLEM), 503 if away else 500)


def failed(scope: Scope, error: Exception) -> None:
    """Log the one line. The endpoint's name is from our code; the path is the stranger's."""
    endpoint = getattr(scope.get("endpoint"), "__qualname__", None)
    log.error(
        "http.call_failed", transport=scope["type"], endpoint=endpoint, **error_facts.error_facts(error)
    )
