"""What requests cost, and how much a tenant may use, is told to whom. Pure.

How much of a prompt was cached says that somebody sent its beginning before. So the users of a tenant are
told neither that nor a sum that it can be reckoned from, unless the
tenant shows amounts; nor what is left of limits that they share: it says what others do.
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
"""The user's own limits, and those that this platform has for everybody."""
NUMBERS = ("limit", "remaining", "spent", "held")


def seen_by(principal: Principal | None, message: ServerMessage) -> ServerMessage:
    """The message as its reader may see it."""
    if principal is None or principal.sees_amounts:
        return message
    if isinstance(message, End):
        return replace(message, usage=replace(message.usage, cached_input=UNSET), cost=UNSET)
    if isinstance(message, Accepted):  # whose limits those are it does not say
        return replace(message, quota=QuotaLeft())
    if isinstance(message, Error) and _tells_amounts(message):
        return replace(message, message=_words(message), **dict.fromkeys(NUMBERS))
    return message


def refusal_seen_by(principal: Principal | None, refused: Refusal) -> Refusal:
    """The same of what is refused over HTTP."""
    if principal is None or principal.sees_amounts or not _tells_amounts(refused):
        return refused
    return dataclasses.replace(refused, message=_words(refused), **dict.fromkeys(NUMBERS))


def _tells_amounts(refused: Error | Refusal) -> bool:
    return refused.code in OF_MONEY or refused.scope not in OWN_SCOPES


def _words(refused: Error | Refusal) -> str:
    """Instead of its own, which name the limit."""
    return f"a limit of the {refused.scope or 'tenant'} is reached"


def usage_seen_by(principal: Principal, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """A stored answer's usage as its reader may see it."""
    if usage is None or principal.sees_amounts:
        return usage
    return {name: count for name, count in usage.items() if name != "cached_input"}
