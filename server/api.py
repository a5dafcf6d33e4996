"""Public interface of this package: what the console and `parley up` may import from the server."""

from server.access.authentication import origin_allowed
from server.access.key_origins import require_origin
from server.access.rates import CallRates
from server.http.app import POLICY, SecurityHeaders
from server.http.call_limit import LimitedCalls
from server.http.caller import bearer_of, not_a_key
from server.http.guard import guarded
from server.http.replies import RefusedReply, bad_request, json_reply, refused_reply, unauthorized
from server.http.web_files import UNBUILT, PageFiles
from server.models.prompts import PromptRenderer
from server.protocol.codes import ErrorCode, refusal, suspended

__all__ = [
    "POLICY",
    "UNBUILT",
    "CallRates",
    "ErrorCode",
    "LimitedCalls",
    "PageFiles",
    "PromptRenderer",
    "RefusedReply",
    "SecurityHeaders",
    "bad_request",
    "bearer_of",
    "guarded",
    "json_reply",
    "not_a_key",
    "origin_allowed",
    "refusal",
    "refused_reply",
    "require_origin",
    "suspended",
    "unauthorized",
]
