"""Limits the connections of each key, and of each user behind its tickets, over all gateways: a place for
each connection, held by a lease in Redis.

The places of a dead gateway are free when their leases lapse; a session that resumes on another gateway takes
its place along.
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
    """A place for a connection in each of the keys, which may replace another's. `most`: of each key."""

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
        """Take a place for a connection, which may replace another one's. Returns the refusal where the key,
        or the one user of the token, has as many as allowed."""
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
        """Free a connection's place, if it has one."""
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
    """Key of a scope's places. A user's holds only a hash: the name may be long, and is private."""
    name = f"{{t:{principal.tenant}}}conns:{principal.key}"
    if scope == "key":
        return name
    return f"{name}:{hashlib.sha256(principal.user.encode()).hexdigest()[:32]}"
