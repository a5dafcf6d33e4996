"""How many connections each key has, over all gateways: a place a connection, held by a lease in Redis.

A gateway that dies gives its places back when their leases lapse; a session that goes on elsewhere takes its
place along.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from billing.api import Principal
from core.redis import Client
from core.scripts import Script
from core.settings import Settings

KEPT_AT_ONCE_MAX = 500

_FOLDER = Path(__file__).parent / "lua"
_CLOCK = [_FOLDER / "prelude" / "clock.lua"]
_ADMIT = Script(_FOLDER / "connection_admit.lua", _CLOCK)
_KEEP = Script(_FOLDER / "connection_keep.lua", _CLOCK)


class Places:
    """The places of one gateway's connections."""

    def __init__(self, redis: Client, settings: Settings) -> None:
        self._redis = redis
        self._most = settings.connections_per_key_max
        self._lease_ms = int(settings.connection_lease_seconds * 1000)
        self._taken: dict[str, tuple[str, str]] = {}

    async def take(self, principal: Principal, connection: str, before: str) -> bool:
        """A place for a connection, which may replace another. False: the key has as many as it may."""
        key = principal.tenant, principal.key
        arguments = [0, connection, before, self._most, self._lease_ms]
        if not await _ADMIT(self._redis, [_name(*key)], arguments):
            return False
        self._taken[connection] = key
        return True

    async def leave(self, connection: str) -> None:
        """Give a place back, if it has one."""
        key = self._taken.pop(connection, None)
        if key is not None:
            redis: Any = self._redis
            await redis.zrem(_name(*key), connection)

    async def keep(self) -> None:
        """Renew all leases; due every third of their time."""
        by_key: dict[tuple[str, str], list[str]] = defaultdict(list)
        for connection, key in self._taken.items():
            by_key[key].append(connection)
        for key, connections in by_key.items():
            for some in _pieces(connections):
                await _KEEP(self._redis, [_name(*key)], [0, self._lease_ms, *some])


def _pieces(connections: list[str]) -> Iterable[list[str]]:
    return (connections[at : at + KEPT_AT_ONCE_MAX] for at in range(0, len(connections), KEPT_AT_ONCE_MAX))


def _name(tenant: str, key: str) -> str:
    return f"{{t:{tenant}}}conns:{key}"
