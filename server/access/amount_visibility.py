"""Decides who is told the cost of requests, and how much a tenant may use. Pure.

The number of cached prompt tokens tells that somebody sent the prompt's beginning before. So users of a
tenant get neither that number nor a sum that reveals it, unless the tenant shows amounts. Nor do they get
what is left of limits that they share: it tells what others do.
"""

import dataclasses
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from billing.api import Principal, Scope
from core.errors import Refusal
from server.protocol.codes import ErrorCode
from server.protocol.messages import Accepted, End, Error, QuotaLeft, ServerMessage

OF_MONEY = frozenset({ErrorCode.BUDGET_EXCEEDED, ErrorCode.INSUFFICIENT_QUOTA})
OWN_SCOPES = frozenset({None, Scope.USER, "caller", "connection", "address"})
"""Scopes of the user's own limits, and of those that this platform has for everybody."""
NUMBERS = ("limit", "remaining", "spent", "held")


def seen_by(principal: Principal | None, message: ServerMessage) -> ServerMessage:
    """The message without what its reader may not see."""
    if principal is None or principal.sees_amounts:
        return message
    if isinstance(message, End):
        return replace(message, usage=replace(message.usage, cached_input=UNSET), cost=UNSET)
    if isinstance(message, Accepted):  # it does not say whose limits those are
        return replace(message, quota=QuotaLeft())
    if isinstance(message, Error) and _tells_amounts(message):
        return replace(message, message=_words(message), **dict.fromkeys(NUMBERS))
    return message


def refusal_seen_by(principal: Principal | None, refused: Refusal) -> Refusal:
    """A refusal over HTTP without what its reader may not see."""
    if principal is None or principal.sees_amounts or not _tells_amounts(refused):
        return refused
    return dataclasses.replace(refused, message=_words(refused), **dict.fromkeys(NUMBERS))


def _tells_amounts(refused: Error | Refusal) -> bool:
    return refused.code in OF_MONEY or refused.scope not in OWN_SCOPES


def _words(refused: Error | Refusal) -> str:
    """A message in place of the refusal's own, which names the limit."""
    return f"a limit of the {refused.scope or 'tenant'} is reached"


def usage_seen_by(principal: Principal, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """A stored answer's usage without what its reader may not see."""
    if usage is None or principal.sees_amounts:
        return usage
    return {name: count for name, count in usage.items() if name != "cached_input"}
