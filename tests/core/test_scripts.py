"""Scripts come to a server by who may bring them; who may not waits, and not for ever."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.redis import redis_errors, scripts
from core.redis.redis_connections import ScriptsMissing
from core.redis.script_calls import ScriptCall, Signed
from core.redis.scripts import Script, keep_scripts, load_scripts
from core.tasks import cancel_tasks
from tests.support.redis import Redis


class EchoCall(ScriptCall, kw_only=True):
    said: str


class NumbersPart(msgspec.Struct):
    count: int


class NumbersCall(ScriptCall, kw_only=True):
    """A number in each place, and one that may be below zero."""

    count: int = 0
    most: int | None = None
    share: float = 0.0
    parts: list[NumbersPart] = []
    each: list[int] = []
    moved: Signed = 0
    maybe: Signed | None = None


EchoScript = Script[EchoCall, bytes]
USER = ("parley-test-runner", "on", ">pw", "resetkeys", "~key", "+evalsha", "+set", "+get")


@pytest.fixture
async def runner(redis: Redis, redis_url: str) -> AsyncGenerator[Redis]:
    """A client whose user runs scripts and brings none."""
    admin: Any = redis
    await admin.execute_command("ACL", "SETUSER", *USER)
    await admin.script_flush()
    client = Redis.from_url(redis_url, username=USER[0], password="pw")
    yield client
    await client.aclose()
    await admin.execute_command("ACL", "DELUSER", USER[0])


@pytest.fixture
def script(tmp_path: Path) -> EchoScript:
    (tmp_path / "echo.lua").write_text("#!lua\nredis.call('SET', KEYS[1], args.said)\nreturn args.said")
    return Script(tmp_path / "echo.lua", EchoCall, bytes)


async def test_who_may_bring_a_script_does(redis: Redis, script: EchoScript):
    """At once, in the call that needs it."""
    await redis.script_flush()
    assert await script(redis, ["key"], EchoCall(said="said")) == b"said"


async def test_who_may_not_waits_for_one_who_may(redis: Redis, runner: Redis, script: EchoScript):
    """As after a restart of the server: a gateway's or supervisor's look brings all that it knows."""
    calls = asyncio.gather(
        script(runner, ["key"], EchoCall(said="a")),
        script.many(runner, [(["key"], EchoCall(said="b")), (["key"], EchoCall(said="c"))]),
    )
    await asyncio.sleep(0)
    keeping = asyncio.create_task(keep_scripts(redis))
    assert await calls == [b"a", [b"b", b"c"]]
    await cancel_tasks([keeping])
    assert await load_scripts(redis) == 0


async def test_the_wait_ends(runner: Redis, script: EchoScript, monkeypatch: pytest.MonkeyPatch):
    """As where Redis is away: nothing was executed."""
    monkeypatch.setattr(scripts, "LOADED_RETRY_SECONDS", 0)
    with pytest.raises(ScriptsMissing, match="start a gateway or a supervisor"):
        await script(runner, ["key"], EchoCall(said="said"))
    assert await runner.get("key") is None


BELOW: list[dict[str, Any]] = [
    *({"count": -1}, {"most": -1}, {"share": -0.5}, {"each": [1, -1]}),
    *({"parts": [NumbersPart(1), NumbersPart(-1)]}, {"count": -(2**53)}),
]


@pytest.mark.parametrize("below", BELOW)
async def test_a_number_below_zero_is_none_but_where_it_is_marked(
    redis: Redis, tmp_path: Path, below: dict[str, Any]
):
    """No limit, count or time of ours is: whoever sends one is refused before the script begins."""
    (tmp_path / "moved.lua").write_text("#!lua\nreturn args.moved + (args.maybe or 0)")
    moved: Script[NumbersCall, int] = Script(tmp_path / "moved.lua", NumbersCall, int)
    assert (
        await moved(redis, ["key"], NumbersCall(moved=-7, maybe=-2, parts=[NumbersPart(0)], each=[0])) == -9
    )
    with pytest.raises(redis_errors.ResponseError, match="an argument is none"):
        await moved(redis, ["key"], NumbersCall(moved=-7, **below))
