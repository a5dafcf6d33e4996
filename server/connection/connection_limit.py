"""How many connections each key has, and each user behind its tickets, over all gateways: a place a
connection, held by a lease in Redis.

A gateway that dies gives its places back when their leases lapse; a session that goes on elsewhere takes its
place along.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from billing.api import Principal
from core.configuration.settings import Settings
from core.errors import Refusal
from core.redis.client import RedisClient
from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from server.protocol.codes import ErrorCode, refusal

KEPT_AT_ONCE_MAX = 500

_FOLDER = Path(__file__).parent / "lua"


class ConnectionAdmitCall(ScriptCall, kw_only=True):
    """A place in each key for a connection, which may replace another. `most`: of each key."""

    now_ms: int = 0
    connection: str
    replaces: str
    lease_ms: int
    most: list[int]


class ConnectionKeepCall(ScriptCall, kw_only=True):
    """Renew the leases of connections."""

    now_ms: int = 0
    lease_ms: int
    connections: list[str]


ADMIT = Script(_FOLDER / "connection_admit.lua", ConnectionAdmitCall, int)
KEEP = Script(_FOLDER / "connection_keep.lua", ConnectionKeepCall, bool)


class ConnectionLimit:
    """The places of one gateway's connections."""

    def __init__(self, redis: RedisClient, settings: Settings) -> None:
        self._redis = redis
        self._most = {"key": settings.connections_per_key_max, "user": settings.connections_per_user_max}
        self._lease_ms = int(settings.connection_lease_seconds * 1000)
        self._taken: dict[str, list[str]] = {}

    async def take(self, principal: Principal, connection: str, before: str) -> Refusal | None:
        """A place for a connection, which may replace another; or why there is none: the key, or the one user
        that its bearer is, has as many as may be."""
        scopes = ["key", "user"] if principal.fixed_user else ["key"]
        names = [_name(principal, scope) for scope in scopes]
        most = [self._most[scope] for scope in scopes]
        call = ConnectionAdmitCall(connection=connection, replaces=before, lease_ms=self._lease_ms, most=most)
        full = await ADMIT(self._redis, names, call)
        if full:
            return _full(scopes[full - 1], most[full - 1])
        self._taken[connection] = names
        return None

    async def leave(self, connection: str) -> None:
        """Give a place back, if it has one."""
        for name in self._taken.pop(connection, []):
            await self._redis.zrem(name, connection)

    async def keep(self) -> None:
        """Renew all leases; due every third of their time."""
        by_name: dict[str, list[str]] = defaultdict(list)
        for connection, names in self._taken.items():
            for name in names:
                by_name[name].append(connection)
        for name, connections in by_name.items():
            for some in _pieces(connections):
                await KEEP(self._redis, [name], ConnectionKeepCall(lease_ms=self._lease_ms, connections=some))


def _full(scope: str, most: int) -> Refusal:
    whose = "this key has" if scope == "key" else "you have"
    problem = f"{whose} {most} connections already: close one first"
    return refusal(ErrorCode.RATE_LIMITED, problem, scope=scope, limit=most)


def _pieces(connections: list[str]) -> Iterable[list[str]]:
    return (connections[at : at + KEPT_AT_ONCE_MAX] for at in range(0, len(connections), KEPT_AT_ONCE_MAX))


def _name(principal: Principal, scope: str) -> str:
    """Of a user only a hash: his name may be long, and is nobody's business here."""
    name = f"{{t:{principal.tenant}}}conns:{principal.key}"
    if scope == "key":
        return name
    return f"{name}:{hashlib.sha256(principal.user.encode()).hexdigest()[:32]}"
