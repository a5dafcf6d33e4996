"""The door of this package: what the console and `parley up` may import from the server."""

from server.auth import origin_allowed
from server.http.app import SecurityHeaders
from server.http.calls import LimitedCalls
from server.http.guard import guarded
from server.http.replies import refused_reply
from server.prompts import PromptRenderer
from server.protocol.codes import ErrorCode, refusal
from server.rates import Rates

__all__ = [
    "ErrorCode",
    "LimitedCalls",
    "PromptRenderer",
    "Rates",
    "SecurityHeaders",
    "guarded",
    "origin_allowed",
    "refusal",
    "refused_reply",
]
