"""Errors of the API as problem+json (RFC 9457). Pure."""

from typing import Any

import msgspec
from starlette.responses import Response

from core.clock import iso_time
from core.errors import Refusal
from core.operations import registered
from server.api import RefusedReply, refused_reply

STATUSES = {
    "unauthorized": 401,
    "forbidden": 403,
    "second_factor": 403,
    "conflict": 409,
    "under_way": 409,
    "key_conflict": 422,
    "too_large": 413,
    "rate_limited": 429,
    "overloaded": 503,
    "internal": 500,
}
STALE, IF_MATCH = ("conflict", "version"), "if-match"  # what an operation calls it, and the header
NO_STORE = {"cache-control": "no-store"}
AWAY_MS = 2000
TITLES = {
    400: "This is not valid",
    401: "Sign in first",
    403: "You may not do this",
    404: "There is no such thing",
    405: "This path takes another method",
    409: "Somebody was faster",
    413: "This is too large",
    422: "This key was used for something else",
    429: "Too many calls",
    500: "This is our fault",
    503: "Not now",
}


def status_of(refusal: Refusal) -> int:
    """The HTTP status of a refusal. Pure."""
    return 404 if refusal.unknown else STATUSES.get(refusal.code, 400)


def problem(refusal: Refusal, status: int | None = None) -> Response:
    """The reply to a call that is refused."""
    status = status or status_of(refusal)
    facts: dict[str, Any] = {
        "type": f"urn:parley:problem:{refusal.code if status != 404 else 'unknown'}",
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "detail": refusal.message,
    }
    if refusal.field is not None:
        facts["field"] = IF_MATCH if (refusal.code, refusal.field) == STALE else refusal.field
    if refusal.see is not None:
        facts["see"] = _see(refusal)
    if refusal.changes:
        facts["changes"] = [
            {
                "author": each.author,
                "at": iso_time(each.at_ms),
                "action": each.action,
                "before": each.before,
                "after": each.after,
            }
            for each in refusal.changes
        ]
    reply = Response(msgspec.json.encode(facts), status, NO_STORE, "application/problem+json")
    if refusal.after_ms is not None or status == 503:
        reply.headers["retry-after"] = str(max(1, -(-(refusal.after_ms or AWAY_MS) // 1000)))
    if status == 401:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


def reply_of(path: str) -> RefusedReply:
    """How a path of a console says that it refuses: the API by a problem, others as a gateway does."""
    return problem if path.startswith("/api/") else refused_reply


def _see(refusal: Refusal) -> dict[str, Any]:
    assert refusal.see is not None
    declared = registered().get(refusal.see.operation)
    if declared is None:
        return {"operation": refusal.see.operation}
    facts: dict[str, Any] = {
        "operation": declared.name,
        "method": declared.method,
        "path": f"/api{declared.path}",
    }
    if refusal.see.ask:
        facts["ask"] = dict(refusal.see.ask)
    return facts | ({"help": True} if refusal.see.help else {})
