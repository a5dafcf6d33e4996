"""Bytes of a taken-over worker that reach a script's reply: what cannot be read is set aside alone, or is one
kind of Redis' own errors, so that nobody's loop or command ends by it."""

from typing import Any

import msgspec
import pytest
from redis.exceptions import RedisError

from chaos.injected.scripted import ScriptedEngine
from core.configuration.settings import Settings
from core.redis.script_calls import EXACT_MAX, reply_of
from engine.queue import lua_scripts, script_replies
from engine.queue.script_calls import RequestCall
from tests.engine.builders import FINGERPRINT, Pool, append_to, end_entry, request, usage_event
from tests.engine.workers import PoolWorkers, saying
from tests.support.redis import Redis

WAITING = {
    "status": "queued",
    "fingerprint": FINGERPRINT,
    "class": "interactive",
    "lane": "normal",
    "granted": "5",
    "deadline": str(1 << 53),
    **dict.fromkeys(("prompt", "n", "control", "deaths", "cn"), "0"),
    "order": "1",
}


@pytest.mark.parametrize(("tenant", "id"), [(b"tt", b"\xff"), (b"\xff\xfe", b"x"), (b"tt", b"x\n")])
async def test_a_line_that_a_worker_planted_is_claimed_by_nobody(tenant: bytes, id: bytes, redis: Redis):
    """Before all others in line: whoever claims takes those behind it, and it goes."""
    p = Pool(redis)
    await p.worker()
    await p.queue.enqueue(request(id="r1"))
    await p.client.hset(b"{p:default}req:" + tenant + b":" + id, mapping=WAITING)
    await p.client.zadd(b"{p:default}ids:interactive:" + tenant, {id: 1})
    await p.client.zadd(b"{p:default}age:interactive", {tenant + b":" + id: 1})
    await p.client.zadd(b"{p:default}act:interactive", {tenant: 0})
    assert [claim.id for claim in await p.claim()] == ["r1"]
    assert await p.client.zcard(b"{p:default}ids:interactive:" + tenant) == 0


async def test_a_stored_answer_that_a_worker_planted_repeats_what_can_be_read(redis: Redis):
    """Rows and victims."""
    p = Pool(redis)
    claim = await p.running(id="r1")
    packed = msgspec.msgpack.encode((0, [("t1", b"\xff", "c"), ("t1", "r1", claim.ck)], [("t1", b"\xff")]))
    stored = packed.replace(b"\xc4\x01\xff", b"\xa1\xff")  # text, as Lua packs it
    await p.client.hset("{p:default}worker:w1", "answer", stored)
    await p.client.hset(b"{p:default}req:t1:\xff", mapping={"ck": "c"})
    p.calls["w1"] -= 1
    assert [again.id for again in await p.claim()] == ["r1"]


async def test_flags_of_a_claim_that_a_worker_planted_keep_no_worker_from_its_own(redis: Redis):
    """Nor from its lease."""
    p = Pool(redis)
    claim = await p.running(id="r1")
    await p.client.hset("{p:default}req:t1:r1", "control", "1")
    await p.client.hset(b"{p:default}req:tt:\xff", mapping={"control": "1", "status": "running"})
    await p.client.sadd("{p:default}claims:w1", b"tt:\xff")
    renewed = await p.queue.renew("w1", 0, {})
    assert renewed.alive
    assert [(tenant, id) for tenant, id, _ in renewed.control] == [(claim.tenant, claim.id)]
    assert renewed.odd == 1


async def test_a_place_of_an_end_that_is_none_is_told_to_nobody(redis: Redis):
    """Whoever repeats an end gets no place, and the others of its flush get theirs."""
    p = Pool(redis)
    claim, other = await p.running(id="r1"), await p.running(id="r2")
    end = append_to(claim, entries=[end_entry(3, 0)], end=usage_event("t1", "r1"))
    await p.queue.append("w1", [end])
    await p.client.hset("{p:default}req:t1:r1", "end_at", b"\xff")
    again, done = await p.queue.append("w1", [end, append_to(other, ids=(1,), x="a")])
    assert (again.ended, done.n) == (None, 1)


@pytest.mark.parametrize("packed", [b"\xc1", b"", None, 7, msgspec.msgpack.encode({"memory": 1})])
def test_an_unreadable_reply_is_one_of_redis_errors(packed: Any):
    """So it is for everybody who copes with a call that Redis refuses."""
    with pytest.raises(RedisError):
        reply_of(script_replies.EndsReply, packed)


async def test_one_unreadable_reply_of_many_stands_in_its_own_place(redis: Redis):
    """Among those of one round trip."""
    p = Pool(redis)
    for id, status in (("r1", b"\xff"), ("r2", b"queued")):
        await p.client.hset(f"{{p:default}}req:t1:{id}", "status", status)
    calls = [(["{p:default}sys"], RequestCall(now_ms=1, tenant="t1", id=id)) for id in ("r1", "r2")]
    odd, good = await lua_scripts.UNPARK.many(redis, calls)
    assert isinstance(odd, RedisError)
    assert isinstance(good, script_replies.StatusReply)


async def test_a_place_that_cannot_be_counted_on_from_ends_no_worker(redis: Redis, settings: Settings):
    """Of all numbers that a script takes, a record has the largest: its answer is given up, others end."""
    crew = PoolWorkers(redis, settings, as_worker=True)
    client: Any = redis
    planted = await crew.send()
    await client.hset(f"{{p:default}}req:t1:{planted}", mapping={"visible": EXACT_MAX, "raw": EXACT_MAX})
    async with crew.worker(ScriptedEngine(saying("Good day."), step_seconds=0)) as running:
        assert (await crew.ended(await crew.send()))["reason"] == "stop"
        assert not running.task.done()
