"""Close codes and error codes of parley.v1 (docs/protocol.md).

Close codes 4000-4499: reconnect and resume; 4500-4999: stop.
"""

from dataclasses import replace
from enum import IntEnum, StrEnum
from typing import TypedDict

from core.errors import Refusal, RefusedText, TokensThatFit
from server.protocol.context_use import TokenCounts
from server.protocol.flags import RefusedPrompt


class CloseCode(IntEnum):
    """Reasons why the server closes a socket. The number's range is the client's retry policy."""

    NORMAL = 1000
    DRAIN = 4000
    MAX_AGE = 4001
    REBALANCE = 4002
    SUPERSEDED = 4003
    SLOW = 4008
    STATE_LOST = 4010
    NO_PONG = 4012
    RATE_LIMITED = 4013
    AUTH_EXPIRED = 4014
    INTERNAL = 4015
    BAD_MESSAGE = 4500
    AUTH_INVALID = 4501
    HELLO_TIMEOUT = 4502
    FORBIDDEN = 4504
    CONNECTION_LIMIT = 4505
    VERSION = 4506
    SUSPENDED = 4507
    TOO_BIG = 4509


class ErrorCode(StrEnum):
    """Values of `error.code`."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    TOKEN_EXPIRED = "token_expired"
    RATE_LIMITED = "rate_limited"
    INSUFFICIENT_QUOTA = "insufficient_quota"
    BUDGET_EXCEEDED = "budget_exceeded"
    ACCOUNT_SUSPENDED = "account_suspended"
    OVERLOADED = "overloaded"
    BAD_MESSAGE = "bad_message"
    BAD_REQUEST = "bad_request"
    UNKNOWN_MODEL = "unknown_model"
    TOO_LARGE = "too_large"
    ID_CONFLICT = "id_conflict"
    UNKNOWN_CONVERSATION = "unknown_conversation"
    CONVERSATION_BUSY = "conversation_busy"
    NOT_RESUMABLE = "not_resumable"
    CANCEL_DENIED = "cancel_denied"
    ENGINE_LOST = "engine_lost"
    LOG_LOST = "log_lost"
    SAFETY_BLOCKED = "safety_blocked"
    DEADLINE = "deadline"
    INTERNAL = "internal"


HELLO_REFUSED = {
    ErrorCode.UNAUTHORIZED: CloseCode.AUTH_INVALID,
    ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN,
    ErrorCode.ACCOUNT_SUSPENDED: CloseCode.SUSPENDED,
    ErrorCode.RATE_LIMITED: CloseCode.RATE_LIMITED,
}
"""Close code for a refused hello; any other refusal is a fault of ours."""

RETRYABLE = frozenset(
    {
        ErrorCode.TOKEN_EXPIRED,
        ErrorCode.RATE_LIMITED,
        ErrorCode.OVERLOADED,
        ErrorCode.CONVERSATION_BUSY,
        ErrorCode.ENGINE_LOST,
        ErrorCode.INTERNAL,
    }
)


def refusal(
    code: ErrorCode,
    message: str,
    *,
    after_ms: int | None = None,
    scope: str | None = None,
    limit: int | None = None,
    tokens: TokensThatFit | None = None,
) -> Refusal:
    """A refusal whose `retry` follows from its code."""
    return Refusal(code, message, code in RETRYABLE, after_ms, scope, limit, tokens=tokens)


def suspended() -> Refusal:
    """The refusal for callers of a closed tenant, whose proofs were good before, and for nobody else."""
    return refusal(ErrorCode.ACCOUNT_SUSPENDED, "this account is suspended: ask its administrator")


def safety_blocked(text: RefusedText) -> Refusal:
    """The refusal of a prompt that a safety policy blocks."""
    problem = (
        f"not sent: a safety policy of the {text.scope} blocks prompts in which it finds “{text.category}”; "
        "nothing was stored or billed: change the text and send it again"
    )
    return Refusal(ErrorCode.SAFETY_BLOCKED, problem, text=text)


def of_queue(refused: Refusal) -> Refusal:
    """A refusal of the queue or the quota, with the protocol's own code."""
    code = ErrorCode(refused.code)
    return replace(refused, code=code, retry=code in RETRYABLE)


class LimitFacts(TypedDict):
    """Facts in an `error` about the limit that refuses; None: not known, or not applicable."""

    scope: str | None
    limit: int | None
    dimension: str | None
    remaining: int | None
    spent: int | None
    held: int | None
    resets_at_ms: int | None


def limit_facts(refused: Refusal) -> LimitFacts:
    """The limit's facts of a refusal."""
    return LimitFacts(
        scope=refused.scope,
        limit=refused.limit,
        dimension=refused.dimension,
        remaining=refused.remaining,
        spent=refused.spent,
        held=refused.held,
        resets_at_ms=refused.resets_at_ms,
    )


def refused_prompt(refused: Refusal) -> RefusedPrompt | None:
    """The place of a prompt that safety refuses; None for any other refusal."""
    text = refused.text
    return None if text is None else RefusedPrompt(text.category, text.scope, text.p, text.n, text.message)


def too_many_tokens(refused: Refusal) -> TokenCounts | None:
    """By how much a refused prompt is too large; None where that is not why."""
    tokens = refused.tokens
    return None if tokens is None else TokenCounts(tokens.has, tokens.fit)
