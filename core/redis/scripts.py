"""Lua scripts, kept in .lua files beside the module that calls them, and how they come to the server.

A process whose Redis user may not bring scripts (a worker, a biller) runs only what gateways and supervisors
have loaded: they look every second, so a server that starts anew has them soon.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.script_calls import ScriptCall, arguments_of, reply_of, unpacking

KEEP_SECONDS = 1.0
LOADED_TRIES = 20
NUMBERS = Path(__file__).parent.parent / "lua" / "prelude" / "numbers.lua"
LOADED_RETRY_SECONDS = 0.1

Call = TypeVar("Call", bound=ScriptCall)
Reply = TypeVar("Reply")

log = logger(__name__)
repeated = RepeatedWarning(log)

_known: "dict[str, Script[Any, Any]]" = {}  # every script of this process, by sha


class Script(Generic[Call, Reply]):
    """One Lua file behind `core/lua/prelude/numbers.lua` and the prelude that it names, with the struct that
    it takes and the struct (core/redis/script_calls.py) or plain number, text or list that it replies.

    Runs by its sha. Where the server does not know it yet, sends its source, or waits for a process that may.
    """

    def __init__(
        self, path: Path, call: type[Call], reply: type[Reply], prelude: Sequence[Path] = ()
    ) -> None:
        first, _, body = path.read_text().partition("\n")
        assert first.startswith("#!lua"), f"{path} must start with #!lua"
        self.name = path.stem
        self.call, self.reply = call, reply
        self.files = (path, NUMBERS, *prelude)
        before = [first, unpacking(call), *(file.read_text() for file in self.files[1:])]
        self.source = "\n".join([*before, body])
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        _known[self.sha] = self

    async def __call__(self, client: RedisClient, keys: Sequence[str], call: Call) -> Reply:
        """The script's reply. `keys` share one hash tag. Raises UnsendableCallError and
        UnreadableReplyError, both of them RedisErrors."""
        return reply_of(self.reply, await self.run(client, keys, arguments_of(call)))

    async def or_none(self, client: RedisClient, keys: Sequence[str], call: Call) -> Reply | None:
        """As a call, for a script that may reply nil: None then."""
        found = await self.run(client, keys, arguments_of(call))
        return None if found is None else reply_of(self.reply, found)

    async def run(self, client: RedisClient, keys: Sequence[str], arguments: Sequence[bytes]) -> Any:
        """Redis' raw reply to packed arguments."""
        try:
            return await client.at_once("EVALSHA", self.sha, len(keys), *keys, *arguments)
        except redis_errors.NoScriptError:
            try:
                return await client.at_once("EVAL", self.source, len(keys), *keys, *arguments)
            except redis_errors.NoPermissionError:
                return await self._once_loaded(client, keys, arguments)

    async def _once_loaded(self, client: RedisClient, keys: Sequence[str], arguments: Sequence[bytes]) -> Any:
        """Run the script once another process has loaded it, for one that may not load scripts itself: those
        that may look every second (`keep_scripts`)."""
        for _ in range(LOADED_TRIES):
            repeated.warning(
                "scripts.not_loaded_yet",
                hint="a gateway or supervisor of this release loads it",
                name=self.name,
            )
            await asyncio.sleep(LOADED_RETRY_SECONDS)
            try:
                return await client.at_once("EVALSHA", self.sha, len(keys), *keys, *arguments)
            except redis_errors.NoScriptError:
                continue
        from core.redis.redis_connections import ScriptsMissing

        raise ScriptsMissing(f"{self.name} is not loaded: start a gateway or a supervisor of this release")

    async def many(
        self, client: RedisClient, calls: Sequence[tuple[Sequence[str], Call]]
    ) -> list[Reply | Exception]:
        """The replies to several calls, (keys, call) each, in one round trip; an error stands in the place of
        its reply. On a cluster one after the other."""
        packed = [(keys, arguments_of(call)) for keys, call in calls]
        commands = [("EVALSHA", self.sha, len(keys), *keys, *arguments) for keys, arguments in packed]
        replies = await client.all_at_once(commands)
        unknown = redis_errors.NoScriptError
        return [
            await self._reply_or_error(client, *call) if isinstance(reply, unknown) else self._read(reply)
            for reply, call in zip(replies, packed, strict=True)
        ]

    async def _reply_or_error(
        self, client: RedisClient, keys: Sequence[str], arguments: Sequence[bytes]
    ) -> Reply | Exception:
        try:
            return self._read(await self.run(client, keys, arguments))
        except redis_errors.ResponseError as error:
            return error

    def _read(self, found: Any) -> Reply | Exception:
        try:
            return found if isinstance(found, Exception) else reply_of(self.reply, found)
        except redis_errors.UnreadableReplyError as error:
            return error


def known_scripts() -> "Sequence[Script[Any, Any]]":
    """Every script of this process."""
    return tuple(_known.values())


async def load_scripts(client: RedisClient) -> int:
    """Load every script of this process that a server lacks, on a cluster at all primaries. Returns their
    number."""
    scripts = known_scripts()
    there = await client.script_exists(*(script.sha for script in scripts))
    lacking = [script for script, known in zip(scripts, there, strict=True) if not known]
    for script in lacking:
        await client.script_load(script.source)
    return len(lacking)


async def keep_scripts(client: RedisClient) -> None:
    """Load missing scripts again and again, for ever."""
    while True:
        try:
            if loaded := await load_scripts(client):
                log.info("scripts.loaded", scripts=loaded)
        except (redis_errors.RedisError, OSError) as error:
            repeated.warning("scripts.load_failed", error=error_summary(error))
        await asyncio.sleep(KEEP_SECONDS)
