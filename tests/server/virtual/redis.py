"""As much of Redis as sessions, places, tickets and news ask for, in memory, with what their Lua scripts do.

The scripts themselves are held to docs/protocol.md by the conformance cases over a socket.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import msgspec

from core.clock import now_ms
from server.connection import connection_limit as places
from server.connection import session_store

NEVER = float("inf")


class MemoryRedis:
    """One installation's."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}
        self._until: dict[str, float] = {}
        self._listeners: set[asyncio.Queue[bytes]] = set()
        scripts: list[tuple[Any, Callable[[list[str], Any], Any]]] = [
            (session_store.RESUME, self._resume),
            (session_store.CONFIRM, self._confirm),
            (places.ADMIT, self._admit),
            (places.KEEP, self._keep),
        ]
        self._scripts = {script.sha: (script.call, does) for script, does in scripts}

    # Scripts

    async def at_once(self, command: str, name: str, *rest: Any) -> Any:
        """A script of the gateway's, by its sha; or what is good once."""
        if command == "SET":
            return self._mark(name, *rest)
        assert command == "EVALSHA"
        count, *given = rest
        call, does = self._scripts[name]
        return does(given[:count], msgspec.msgpack.decode(given[count], type=call))

    def _resume(self, keys: list[str], call: session_store.ResumeCall) -> bytes | None:
        found = self._get(keys[0])
        if not found or found["owner"] != call.owner:
            return None
        number, before_until = int(found["n"]), int(found["before_until"])
        before_good = call.number == number - 1 and (before_until == 0 or now_ms() <= before_until)
        if call.number != number and not before_good:
            return None
        had = {"connection": found["connection"], "gateway": found["gateway"]}
        now = {"connection": call.connection, "gateway": call.gateway}
        found |= {"n": number + 1, "before_until": "0", **now}
        for key in keys:
            self._expire(key, call.keep_ms)
        return msgspec.msgpack.encode({"number": number + 1, **had})

    def _confirm(self, keys: list[str], call: session_store.ConfirmCall) -> int:
        found = self._get(keys[0]) or {}
        if found.get("connection") == call.connection and found["before_until"] == "0":
            found["before_until"] = str(now_ms() + call.grace_ms)
        return 1

    def _admit(self, keys: list[str], call: places.ConnectionAdmitCall) -> int:
        held: list[dict[str, int]] = []
        for key in keys:
            found = {name: until for name, until in (self._get(key) or {}).items() if until > now_ms()}
            found.pop(call.replaces, None)
            self._kept[key] = found
            held.append(found)
        for at in range(len(keys), 0, -1):
            if len(held[at - 1]) >= call.most[at - 1]:
                return at
        for key, found in zip(keys, held, strict=True):
            found[call.connection] = now_ms() + call.lease_ms
            self._expire(key, call.lease_ms)
        return 0

    def _keep(self, keys: list[str], call: places.ConnectionKeepCall) -> int:
        held = self._kept.setdefault(keys[0], {})
        held |= {connection: now_ms() + call.lease_ms for connection in call.connections}
        self._expire(keys[0], call.lease_ms)
        return 1

    # Commands

    def _get(self, key: str) -> Any:
        if self._until.get(key, NEVER) <= now_ms():
            self._kept.pop(key, None)
            self._until.pop(key, None)
        return self._kept.get(key)

    def _expire(self, key: str, ms: int) -> None:
        if key in self._kept:
            self._until[key] = now_ms() + ms

    async def hset(self, key: str, mapping: dict[str, Any]) -> None:
        """Set fields."""
        self._kept.setdefault(key, {}).update({name: str(value) for name, value in mapping.items()})

    async def hget(self, key: str, name: str) -> bytes | None:
        """One field."""
        found = (self._get(key) or {}).get(name)
        return None if found is None else str(found).encode()

    async def pexpire(self, key: str, ms: int) -> None:
        """Keep it so long."""
        self._expire(key, ms)

    async def sadd(self, key: str, *members: str) -> None:
        """Into a set."""
        self._kept.setdefault(key, set()).update(members)

    async def srem(self, key: str, *members: str) -> None:
        """Out of a set."""
        (self._get(key) or set()).difference_update(members)

    async def scard(self, key: str) -> int:
        """How many are in a set."""
        return len(self._get(key) or ())

    async def smembers(self, key: str) -> set[bytes]:
        """A set."""
        return {member.encode() for member in self._get(key) or ()}

    async def delete(self, *keys: str) -> None:
        """They are gone."""
        for key in keys:
            self._kept.pop(key, None)

    async def zrem(self, key: str, member: str) -> None:
        """Out of a sorted set."""
        (self._get(key) or {}).pop(member, None)

    def _mark(self, key: str, value: bytes, *options: Any) -> bytes | None:
        """What was there before; then it stays."""
        assert options[:3] == ("NX", "GET", "PX")
        found = self._get(key)
        if found is None:
            self._kept[key] = value
            self._expire(key, options[3])
        return found

    def pipeline(self, transaction: bool) -> "Pipeline":
        """Several commands at once."""
        assert not transaction
        return Pipeline(self)

    async def all_at_once(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Ends of connections, which nobody reads here."""
        assert commands[0][0] == "XADD"
        return [None for _ in commands]

    # News

    async def publish(self, _channel: str, packed: bytes) -> None:
        """Tell who listens."""
        for listener in self._listeners:
            listener.put_nowait(packed)

    def pubsub(self) -> "News":
        """Somebody who listens."""
        return News(self._listeners)


class Pipeline:
    """Commands that wait for `execute`."""

    def __init__(self, redis: MemoryRedis) -> None:
        self._redis: Any = redis
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., Self]:
        def add(*arguments: Any) -> Self:
            self._waiting.append((name, arguments))
            return self

        return add

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Their replies."""
        return [await getattr(self._redis, name)(*arguments) for name, arguments in self._waiting]


class News:
    """A subscription."""

    def __init__(self, listeners: set[asyncio.Queue[bytes]]) -> None:
        self._listeners = listeners
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()

    async def subscribe(self, _channel: str) -> None:
        """Listen."""
        self._listeners.add(self._waiting)

    async def get_message(self, ignore_subscribe_messages: bool, timeout: float) -> dict[str, Any] | None:
        """What was told, None for nothing: the wait is without end, as nobody here is ever cut off."""
        del ignore_subscribe_messages, timeout
        return {"data": await self._waiting.get()}

    async def aclose(self) -> None:
        """Listen no more."""
        self._listeners.discard(self._waiting)
