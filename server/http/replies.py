"""JSON replies and the HTTP status of each refusal."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from billing.api import Principal
from core.clock import now_ms
from core.errors import Refusal, Refused
from server.access.amount_visibility import refusal_seen_by
from server.http import limit_headers
from server.protocol.codes import ErrorCode, limit_facts, refusal

STATUSES = {
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.TOKEN_EXPIRED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.CANCEL_DENIED: 403,
    ErrorCode.ACCOUNT_SUSPENDED: 402,
    ErrorCode.INSUFFICIENT_QUOTA: 402,
    ErrorCode.BUDGET_EXCEEDED: 402,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.OVERLOADED: 503,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UNKNOWN_CONVERSATION: 404,
    ErrorCode.UNKNOWN_MODEL: 404,
    ErrorCode.ID_CONFLICT: 409,
    ErrorCode.CONVERSATION_BUSY: 409,
    ErrorCode.INTERNAL: 500,
}
RefusedReply = Callable[[Refusal, int | None], Response]
ReplyOf = Callable[[str], RefusedReply]
BODY_SECONDS_MAX = 10.0
BODY_BYTES_MAX = 4096


def json_reply(content: Any, status: int = 200) -> Response:
    """A JSON response that nobody may store."""
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def refused_reply(refused: Refusal, status: int | None = None) -> Response:
    """{"error": {...}} with the code's status, or this one, and the headers of limit_headers.py."""
    error = {"code": refused.code, "message": refused.message, "retry": refused.retry}
    extra: dict[str, object] = {"after_ms": refused.after_ms, **limit_facts(refused)}
    status = status or STATUSES.get(ErrorCode(refused.code), 400)
    reply = json_reply({"error": error | {k: v for k, v in extra.items() if v is not None}}, status)
    reply.headers.update(limit_headers.of_refusal(refused, status, now_ms()))
    if status == 401:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


def gateways_reply(_path: str) -> RefusedReply:
    """How every path of a gateway says that it refuses."""
    return refused_reply


def remember_caller(request: Request, principal: Principal) -> None:
    """Note the caller, so that later refusals of this request leave out what the caller may not see."""
    request.state.principal = principal


async def on_refused(request: Request, error: Exception) -> Response:
    """Starlette's handler for Refused. Users are not told amounts that their tenant does not show."""
    assert isinstance(error, Refused)
    principal = getattr(request.state, "principal", None)
    return refused_reply(refusal_seen_by(principal, error.refusal))


async def body_object(request: Request) -> dict[str, Any]:
    """The request's JSON object, empty for no body. Raises Refused (bad_request) on anything else."""
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            body = await _body(request)
    except TimeoutError:
        raise bad_request(f"the body did not arrive within {BODY_SECONDS_MAX:.0f} s") from None
    if not body:
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("the body is not a JSON object") from None


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise bad_request(f"the body is larger than {BODY_BYTES_MAX} bytes")
    return body


def bad_request(message: str) -> Refused:
    """A Refused that names the fault in the request."""
    return Refused(refusal(ErrorCode.BAD_REQUEST, message))


def unauthorized(message: str) -> Refused:
    """A Refused for unknown callers."""
    return Refused(refusal(ErrorCode.UNAUTHORIZED, message))
