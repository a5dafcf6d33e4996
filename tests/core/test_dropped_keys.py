"""Keys that a script drops, as they are of another type than ours, are counted and told."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from core.redis.dropped_keys import COUNT_MAX, KINDS_MAX, tell_dropped
from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from tests.support.redis import Redis

SLOTS = ["{p:a}", "{t:t1}", "{t:t2}"]


class TouchCall(ScriptCall, kw_only=True):
    """Nothing but its keys."""


@pytest.fixture
def touch(tmp_path: Path) -> Script[TouchCall, int]:
    """A script that reads its keys as hashes."""
    (tmp_path / "touch.lua").write_text(
        "#!lua flags=allow-oom\nfor _, name in ipairs(KEYS) do call('HGETALL', name) end\nreturn 1"
    )
    return Script(tmp_path / "touch.lua", TouchCall, int)


async def told(redis: Redis) -> list[tuple[str, str, int]]:
    """What one look tells: slot, kind and number."""
    with capture_logs() as lines:
        await tell_dropped(redis, SLOTS)
    dropped = [line for line in lines if line["event"] == "redis.key_dropped"]
    assert all(line["log_level"] == "warning" for line in dropped)
    return sorted((line["slot"], line["kind"], line["count"]) for line in dropped)


async def test_what_is_dropped_is_told_once(redis: Redis, touch: Script[TouchCall, int]):
    """By its slot, its kind and how many; of no id, which there may be any number of."""
    for id in range(3):
        await redis.set(f"{{p:a}}req:t1:r{id}", "x")
        await touch(redis, [f"{{p:a}}req:t1:r{id}"], TouchCall())
    for name in ("money~:tenant::month:0", "conc"):
        await redis.set(f"{{t:t1}}{name}", "x")
        await touch(redis, [f"{{t:t1}}{name}"], TouchCall())
    assert await told(redis) == [("{p:a}", "req", 3), ("{t:t1}", "conc", 1), ("{t:t1}", "money~", 1)]
    assert await told(redis) == []
    assert await redis.keys("*") == []


async def test_it_is_bounded(redis: Redis, touch: Script[TouchCall, int]):
    """Whoever drops keys of made-up kinds, or in a slot that nobody sweeps, fills no memory."""
    for at in range(2 * KINDS_MAX):
        name = f"{{t:t1}}{chr(97 + at // 26)}{chr(97 + at % 26)}:1"
        await redis.set(name, "x")
        await touch(redis, [name], TouchCall())
    assert await redis.hlen("{t:t1}dropped") == KINDS_MAX
    assert 0 < await redis.ttl("{t:t1}dropped") <= 7 * 86_400
    assert len(await told(redis)) == KINDS_MAX


PLANTED: list[Any] = [
    {b"\xff\xfe": "1", "a b": "2", "req": "x", "in": "9" * 40, "tok": "-4", "log": 10**17},
    dict.fromkeys(map(str, range(KINDS_MAX + 1)), 1),
]


@pytest.mark.parametrize("planted", PLANTED)
async def test_what_a_worker_plants_there_is_no_traceback(planted: Any, redis: Redis):
    """And none of its words is logged."""
    await redis.hset("{p:a}dropped", mapping=planted)
    await redis.set("{t:t1}dropped", "x")
    await redis.hset("{t:t2}dropped", mapping={"conc": 1})
    found = await told(redis)
    assert ("{t:t2}", "conc", 1) in found
    assert {kind for _, kind, _ in found} <= {"conc", "other", "req", "in", "tok", "log"}
    assert all(0 <= count <= COUNT_MAX for _, _, count in found)


async def test_a_count_of_another_type_stops_no_script(redis: Redis, touch: Script[TouchCall, int]):
    """It goes as well."""
    await redis.set("{p:a}dropped", "x")
    await redis.set("{p:a}req:t1:r1", "x")
    assert await touch(redis, ["{p:a}req:t1:r1"], TouchCall()) == 1
    assert await told(redis) == [("{p:a}", "req", 1)]
