"""Keys and calls of a taken-over worker that are larger than any of ours: a script reads so much of them, and
what is right beside them is done. That none is slow is held by tests/security/test_fuzz_scripts.py."""

from typing import Any

import msgspec
import pytest
from redis.exceptions import ResponseError

from admin.status import read_status
from billing.api import Quota
from billing.enforcement import limit_push
from billing.posting.biller import Biller
from billing.quota.script_calls import LimitsCall, PushedLimit
from billing.quota.unposted_usage import unposted_usage
from billing.usage import ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.script_calls import ARGUMENTS_MAX, KEYS_MAX, LIST_MAX, PACKED_MAX, STRUCTS_MAX
from core.sql.database import Database
from engine.api import AppendCode, PoolQueue
from engine.node.reports import PoolNodes
from engine.operations.inspection import Inspection
from engine.queue import lua_scripts
from server.conversations.recorder import Recorder
from server.conversations.store import ConversationStore
from tests.billing.limited import LimitedTenant, a_budget
from tests.engine.builders import Pool, append_to, text
from tests.support.redis import Redis

CROWD = 10_000
SYS = "{p:default}sys"
ENTRY = ["t", "", 0, 0, 0, ""]
ITEM = {"tenant": "t", "id": "r", "ck": "c", "n0": 0, "o0": 0, "raw": 0, "visible": 0, "entries": []}
FLUSH = {"now_ms": 0, "log_keep_seconds": 1, "prompt_weight": 1.0, "output_weight": 1.0}
LONG: dict[str, tuple[list[str], list[bytes]]] = {
    "structs": ([SYS], [msgspec.msgpack.encode({**FLUSH, "items": [ITEM] * (STRUCTS_MAX + 1)})]),
    "lists within": (
        [SYS],
        [msgspec.msgpack.encode({**FLUSH, "items": [{**ITEM, "entries": [ENTRY] * LIST_MAX}] * 3})],
    ),
    "keys": ([SYS] * (KEYS_MAX + 1), [msgspec.msgpack.encode({**FLUSH, "items": []})]),
    "packed": ([SYS], [msgspec.msgpack.encode({**FLUSH, "items": [], "more": [1] * PACKED_MAX})]),
    "arguments": ([SYS], [msgspec.msgpack.encode({**FLUSH, "items": []}), *[b""] * ARGUMENTS_MAX]),
}


@pytest.mark.parametrize("name", LONG)
async def test_a_call_that_is_longer_than_any_of_ours_does_nothing(name: str, redis: Redis):
    """A script raises an error before it does anything."""
    with pytest.raises(ResponseError, match="an argument is none"):
        await lua_scripts.APPEND.run(redis, *LONG[name])
    assert await redis.dbsize() == 0


async def test_a_flush_of_any_size_is_answered(redis: Redis):
    """In parts, in order: also the last of them is committed."""
    p = Pool(redis)
    claim = await p.running()
    unknown = [append_to(claim, id=f"r{at}") for at in range(2 * STRUCTS_MAX)]
    answers = await p.queue.append("w1", [*unknown, append_to(claim, ids=(1,), x="a")])
    assert [each.code for each in answers] == [AppendCode.MISSING] * len(unknown) + [AppendCode.OK]


async def test_any_number_of_late_requests_is_refused(redis: Redis):
    """As many as somebody has whose texts are erased, in parts."""
    ids = [f"r{at}" for at in range(2 * LIST_MAX)]
    assert await Pool(redis).queue.refuse_late_enqueue("t1", ids) == ids


async def test_readers_that_a_worker_made_up_hold_up_no_text(redis: Redis):
    """More than can read are told nothing; the answer goes on and ends."""
    p, client = Pool(redis), redis
    claim = await p.running(gateway="g1")
    await client.hset(
        p.key(f"rd:{claim.tenant}:{claim.id}"), mapping={f"g{at}": "stuck" for at in range(CROWD)}
    )
    (answer,) = await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    assert answer.code is AppendCode.OK
    view = await p.queue.view(claim.tenant, claim.id)
    assert view is not None
    assert view.head == claim.o + 1


async def test_workers_with_claims_that_they_made_up_are_all_taken_out(redis: Redis):
    """Each reap looks at so many claims; each has its turn, and what they held is in line again."""
    p, client = Pool(redis), redis
    claim = await p.running("w0")
    for worker in ("w1", "w2", "w3"):
        await p.worker(worker)
        await client.sadd(p.key(f"claims:{worker}"), *[f"t9:{at}" for at in range(1_500)])
    p.clock.advance(10_000)
    for _ in range(12):
        await p.queue.reap()
    assert await p.queue.workers() == []
    assert await p.places(claim.tenant, claim.id) == {"line:interactive", "ids:interactive"}
    assert not await client.hexists(SYS, "size:smollm2@1")


async def test_a_limit_with_more_fields_than_ours_is_counted_anew(redis: Redis, settings: Settings):
    """Nobody looks through them for takes: its hash goes, and the next admission seeds it."""
    tenant = LimitedTenant(redis, settings, a_budget(10**15))
    await tenant.seed()
    key = "{t:t1}" + tenant.limits.money[0].key
    await redis.hset(key, mapping={f"take:{at}": "1:1" for at in range(CROWD)})
    call = LimitsCall(read_ms=5, limits=[PushedLimit(1, 0, 0, hard=True, revision=5)])
    await limit_push._LIMITS(redis, [key], call)  # pyright: ignore[reportPrivateUsage]
    assert not await redis.exists(key)
    await tenant.seed()
    await tenant.admit("r1")


async def test_more_windows_than_there_are_hold_up_no_settlement(redis: Redis, settings: Settings):
    """What a request cost is booked all the same."""
    tenant = LimitedTenant(redis, settings, a_budget(10**15))
    await tenant.seed()
    await tenant.admit("r1")
    windows = {f"money|tenant|day{at}|1": tenant.now + 10**12 for at in range(CROWD)}
    await redis.zadd("{t:t1}windows", windows)
    assert await tenant.settle("r1", 10, 10, line_seq=5) == "settled"
    assert (await tenant.sums())[0] > 0


@pytest.mark.parametrize("value", [b"\xff\xfe", b"inf", b"", b"9" * 400])
async def test_a_memory_that_a_worker_made_up_is_begun_anew(value: bytes, redis: Redis):
    """Its own flushes, ends and the keepers of journals are answered in words that can be read."""
    p = Pool(redis)
    claim = await p.running()
    await redis.hset(SYS, mapping={"ended_since": value, "incarnation": value})
    before = (await p.queue.ends()).memory
    assert before == (await p.queue.ends()).memory
    (answer,) = await p.queue.append(
        "w1", [append_to(claim, entries=[text(claim.o + 1, "", 0, 0)], end=b"e")]
    )
    assert answer.ended is not None
    assert answer.ended.memory == before


@pytest.mark.parametrize("type_", ["string", "list"])
async def test_whoever_reads_a_pool_goes_past_keys_of_another_type(
    type_: str, redis: Redis, sqlite: Database, settings: Settings
):
    """Status, views, orders, billers, the close of a month."""
    client: Any = redis
    queue = PoolQueue(redis, settings.pool, settings)
    nodes = PoolNodes(queue)
    tag = f"{{p:{settings.pool}}}"
    await client.hset(f"{tag}req:t1:r1", mapping={"status": "queued", "class": "bulk"})
    others = ("parked", "age:bulk", "age:standard", "worker:w", "engine_hours", "ended_hours")
    for key in (
        ended_stream(settings.pool),
        *(f"{tag}{name}" for name in others),
        "{t:t1}posted",
        "{t:t1}conc",
    ):
        await (client.set(key, "x") if type_ == "string" else client.rpush(key, "x"))
    await client.set(f"{tag}orders:w", "x")
    await read_status(settings, redis, sqlite)
    await Inspection(queue).snapshot()
    assert await Inspection(queue).request("t1", "r1") is not None
    assert not await nodes.is_draining("w")
    assert await nodes.next_order("w", 0.01) is None
    assert await Quota(redis, settings).posted("t1") is None
    assert await Quota(redis, settings).open_requests("t1") == 0
    store, stream = ConversationStore(sqlite), ended_stream(settings.pool)
    await Recorder(redis, settings.pool, settings, store, "g")._make_group()  # pyright: ignore[reportPrivateUsage]
    assert await client.type(stream) == b"stream"
    await client.delete(stream)
    await client.set(stream, "x")
    assert (await Biller(sqlite, redis, settings, [settings.pool]).drain()).held == []
    assert await client.type(stream) == b"stream"
    assert not (await unposted_usage(redis, [settings.pool], "t1", now_ms())).unreachable
