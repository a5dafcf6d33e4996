"""What requests cost, and how much a tenant may use, is told to whom. Pure.

How much of a prompt was cached says that somebody sent its beginning before. So the users of a tenant are
told neither that nor a sum that it can be reckoned from, unless the
tenant shows amounts; nor what is left of limits that they share: it says what others do.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from billing.api import Principal, Scope
from server.protocol.codes import ErrorCode
from server.protocol.messages import Accepted, End, Error, QuotaLeft, ServerMessage

OF_MONEY = frozenset({ErrorCode.BUDGET_EXCEEDED, ErrorCode.INSUFFICIENT_QUOTA})


def seen_by(principal: Principal | None, message: ServerMessage) -> ServerMessage:
    """The message as its reader may see it."""
    if principal is None or principal.sees_amounts:
        return message
    if isinstance(message, End):
        return replace(message, usage=replace(message.usage, cached_input=UNSET), cost=UNSET)
    if isinstance(message, Accepted):  # whose limits those are it does not say
        return replace(message, quota=QuotaLeft())
    if isinstance(message, Error) and (message.code in OF_MONEY or message.scope not in (None, Scope.USER)):
        said = f"a limit of the {message.scope or 'tenant'} is reached"  # its own words name the limit
        return replace(message, message=said, limit=None, remaining=None, spent=None, held=None)
    return message


def usage_seen_by(principal: Principal, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """A stored answer's usage as its reader may see it."""
    if usage is None or principal.sees_amounts:
        return usage
    return {name: count for name, count in usage.items() if name != "cached_input"}
