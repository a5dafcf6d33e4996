"""Repeats each call of a script at once, as who lost the reply would, and says what that changed (INV-12)."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from core.redis.script_calls import reply_of
from core.redis.scripts import Script

READS = {
    "string": ("GET",),
    "hash": ("HGETALL",),
    "list": ("LRANGE", 0, -1),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "stream": ("DUMP",),
}
TIME = re.compile(r"\b(1[78]\d{11})(\d{3})?\b")  # ms or µs
APART_MS_MAX = 60_000
EXPIRES = " expires"

State = dict[str, str]


@dataclass(frozen=True)
class Repeat:
    """One call and the same again. `changed`: the keys that are not as the first call left them."""

    script: Script[Any, Any]
    arguments: tuple[Any, ...]
    first: Any
    second: Any
    changed: dict[str, tuple[str | None, str | None]]


class Repeats(list[Repeat]):
    """What was called, in its order, on these servers. `lasting`: keys that had no expiry after a call."""

    def __init__(self, *servers: str) -> None:
        super().__init__()
        self.lasting: set[str] = set()
        self.servers = [redis.Redis.from_url(server) for server in servers]

    async def call(self, run: Any, script: Script[Any, Any], arguments: Sequence[Any]) -> Any:
        """The first reply, as Redis gave it."""
        first = await run()
        before = self.state()
        second = await run()
        changed = differences(before, self.state())
        self.lasting |= {key for key, value in before.items() if not value.endswith(EXPIRES)}
        one, other = (None if found is None else reply_of(script.reply, found) for found in (first, second))
        self.append(Repeat(script, tuple(arguments), one, other, changed))
        return first

    def state(self) -> State:
        """All keys of all servers, as text, and whether they expire."""
        return {key: value for server in self.servers for key, value in _state(server).items()}

    def close(self) -> None:
        """The connections."""
        for server in self.servers:
            server.close()


def _state(server: "redis.Redis") -> State:
    keys: Any = server.execute_command("KEYS", "*")
    pipe: Any = server.pipeline(transaction=False)
    for key in keys:
        pipe.type(key)
        pipe.pttl(key)
    kinds = pipe.execute()
    for key, kind in zip(keys, kinds[::2], strict=True):
        command, *rest = READS[kind.decode()]
        pipe.execute_command(command, key, *rest)
    values = pipe.execute()
    return {
        key.decode(): f"{_text(value)}{EXPIRES if ttl > 0 else ''}"
        for key, value, ttl in zip(keys, values, kinds[1::2], strict=True)
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return str(sorted(value.items()))
    return str(sorted(value) if isinstance(value, set) else value)


def differences(before: State, after: State) -> dict[str, tuple[str | None, str | None]]:
    """The keys that differ in more than the time that passed between two calls. Pure."""
    pairs = {key: (before.get(key), after.get(key)) for key in {*before, *after}}
    return {key: pair for key, pair in pairs.items() if not _alike(*pair)}


def _alike(one: str | None, other: str | None) -> bool:
    if one is None or other is None or TIME.sub("", one) != TIME.sub("", other):
        return one == other
    times = zip(TIME.finditer(one), TIME.finditer(other), strict=True)
    return all(abs(int(a[1]) - int(b[1])) <= APART_MS_MAX for a, b in times)


@contextmanager
def repeated(*servers: str) -> Generator[Repeats]:
    """Each call of a script is made twice meanwhile; its caller gets the first reply."""
    made, original = Repeats(*servers), Script.run

    async def twice(
        self: Script[Any, Any], client: Any, keys: Sequence[str], arguments: Sequence[bytes]
    ) -> Any:
        return await made.call(lambda: original(self, client, keys, arguments), self, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Script, "run", twice)
        try:
            yield made
        finally:
            made.close()
