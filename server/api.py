"""The door of this package: what the console and `parley up` may import from the server."""

from server.auth import origin_allowed
from server.http.app import SecurityHeaders
from server.http.callers import bearer_of, not_a_key
from server.http.calls import LimitedCalls
from server.http.guard import guarded
from server.http.replies import bad_request, json_reply, refused_reply, unauthorized
from server.prompts import PromptRenderer
from server.protocol.codes import ErrorCode, refusal, suspended
from server.rates import Rates

__all__ = [
    "ErrorCode",
    "LimitedCalls",
    "PromptRenderer",
    "Rates",
    "SecurityHeaders",
    "bad_request",
    "bearer_of",
    "guarded",
    "json_reply",
    "not_a_key",
    "origin_allowed",
    "refusal",
    "refused_reply",
    "suspended",
    "unauthorized",
]
