"""redis-py's errors and our own of their kind, which are imported only once somebody looks at one: most
commands meet none.

except redis_errors.RedisError as error: ...
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis.exceptions import (
        AuthenticationError,
        BusyLoadingError,
        ConnectionError,
        NoPermissionError,
        NoScriptError,
        OutOfMemoryError,
        RedisError,
        ResponseError,
        WatchError,
    )

    from core.redis.script_errors import UnreadableReplyError, UnsendableCallError

__all__ = (
    "AuthenticationError",
    "BusyLoadingError",
    "ConnectionError",
    "NoPermissionError",
    "NoScriptError",
    "OutOfMemoryError",
    "RedisError",
    "ResponseError",
    "UnreadableReplyError",
    "UnsendableCallError",
    "WatchError",
)

# First words of errors of a server that cannot write, is busy or has no master.
UNAVAILABLE_CODES = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "TRYAGAIN"}
)


def is_refusing_everybody(error: "ResponseError") -> bool:
    """True where the server refuses everybody for now, with a full disk for example: the same call may work
    later. Otherwise something is wrong with this call or its keys."""
    from redis.exceptions import ClusterError, OutOfMemoryError, ReadOnlyError

    known = isinstance(error, ClusterError | OutOfMemoryError | ReadOnlyError)
    return known or str(error).partition(" ")[0] in UNAVAILABLE_CODES


def is_of_wrong_type(error: "ResponseError") -> bool:
    """True where the command is for another type than the key's."""
    return str(error).startswith("WRONGTYPE")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("UnreadableReplyError", "UnsendableCallError"):
        from core.redis import script_errors

        return getattr(script_errors, name)
    from redis import exceptions

    return getattr(exceptions, name)
