"""A record, a worker's facts or a key that a worker damaged by plain commands, where an operator's command, a
look of reconciliation or a reader comes upon it: told in words or left out, with no traceback."""

from typing import Any

import msgspec
import pytest

from admin.status import read_status
from billing.api import OwnerFilter, Quota
from billing.cli.run_command import iso_time
from billing.quota.open_requests import keys_of_requests, open_of
from billing.reconciliation.tenant_keys import compare_holds
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import DamagedLogError, EndReason, LogReader, MigrationRefused, end_unclaimed
from engine.cli.formatting import time_of_day, worker_table
from engine.operations.inspection import Inspection
from engine.operations.living import living_processes
from engine.queue.client import DamagedRecordError, PoolQueue
from tests.billing.quota.admissions import an_admission
from tests.engine.builders import TENANT, append_to
from tests.engine.pair_of_pools import Pair
from tests.support.redis import Redis

ODD: tuple[Any, ...] = (b"\xff\xfe", "x", "inf", "-5", "9" * 40)


async def moved_or_why(pair: Pair, id: str) -> str:
    """What `requests migrate` says."""
    try:
        moved = await pair.mover.migrate("a", TENANT, id, "b")
    except MigrationRefused as refused:
        return str(refused)
    return f"moved to {moved.pool}"


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("field", ["fingerprint", "hop", "o", "control", "status", "dest", "order", "class"])
async def test_a_damaged_record_is_moved_or_stays_with_a_reason(field: str, value: Any, redis: Redis):
    """`requests migrate` says why."""
    pair = Pair(redis)
    e = await pair.enqueue()
    client: Any = redis
    await client.hset(pair.a.key(f"req:{TENANT}:{e.id}"), field, value)
    assert await moved_or_why(pair, e.id)


@pytest.mark.parametrize("key", ["req", "in", "tok", "log"])
async def test_a_key_of_another_type_is_moved_or_stays_with_a_reason(key: str, redis: Redis):
    """So does a record that is none."""
    pair = Pair(redis)
    e = await pair.enqueue()
    name, client = pair.a.key(f"{key}:{TENANT}:{e.id}"), redis
    await client.delete(name)
    await (client.rpush(name, "x") if key in ("in", "tok") else client.set(name, "x"))
    assert await moved_or_why(pair, e.id)


FACTS = ({"kv_tokens": "x"}, {"kv_tokens": []}, {"kv_tokens": {}}, {"kv_tokens": 1e300}, {"kv_tokens": -1})
SHOWN = ("running", "waiting", "kv_usage", "step_age_ms", "pid", "slots", "kv_tokens")


@pytest.mark.parametrize("facts", FACTS)
async def test_facts_of_a_worker_that_are_no_numbers_keep_nobody_from_moving(facts: Any, redis: Redis):
    """Its size counts as unknown."""
    pair = Pair(redis)
    e = await pair.enqueue()
    await redis.hset(pair.b.key("worker:wb"), "info", msgspec.json.encode(facts))
    await pair.mover.migrate("a", TENANT, e.id, "b")


@pytest.mark.parametrize("value", ["x", [], {}, 1e300, -1, True, None])
async def test_facts_of_a_worker_that_are_no_numbers_are_not_shown(
    value: Any, redis: Redis, settings: Settings, database: Database
):
    """`workers`, `status` and the console show the others."""
    queue, client = PoolQueue(redis, settings.pool, settings), redis
    await queue.register("w1", "fp", {"kv_tokens": 1})
    odd = msgspec.json.encode(dict.fromkeys(SHOWN, value))
    await client.hset(f"{{p:{settings.pool}}}worker:w1", "info", odd)
    (row,) = await Inspection(queue).workers()
    worker_table([row])
    assert (await read_status(settings, redis, database)).workers[0].slots == 0


async def test_a_damaged_record_cannot_be_ended_and_says_so(redis: Redis):
    """Who cancels it gets a word that it is damaged."""
    pair = Pair(redis)
    e = await pair.enqueue()
    client: Any = redis
    await client.hset(pair.a.key(f"req:{TENANT}:{e.id}"), mapping={"n": "x", "visible": b"\xff"})
    with pytest.raises(DamagedRecordError, match="cannot be read"):
        await end_unclaimed(pair.a.queue, pair.quota, TENANT, e.id, EndReason.CANCELLED)


@pytest.mark.parametrize("epoch", ODD)
async def test_an_epoch_that_is_none_is_another_one(epoch: Any, redis: Redis):
    """The log has begun again, as far as its reader can tell."""
    pair = Pair(redis)
    claim = await pair.running()
    client: Any = redis
    await client.hset(pair.a.key(f"req:{TENANT}:{claim.id}"), "epoch", epoch)
    assert await LogReader(redis, "a").read(TENANT, claim.id, 0, 10, epoch=1) == []


@pytest.mark.parametrize("key", ["log", "req"])
async def test_a_log_of_another_type_is_damaged(key: str, redis: Redis):
    """Its readers get `log_lost`, or begin again."""
    pair = Pair(redis)
    claim = await pair.running()
    await pair.a.queue.append("wa", [append_to(claim, ids=(3,), n0=2, o0=claim.o + 1, x="!", visible=3)])
    await redis.set(pair.a.key(f"{key}:{TENANT}:{claim.id}"), "x")
    reader = LogReader(redis, "a")
    if key == "req":
        assert await reader.read(TENANT, claim.id, 0, 10, epoch=1) == []
        return
    with pytest.raises(DamagedLogError):
        await reader.read(TENANT, claim.id, 0, 10, epoch=1)


async def test_looks_at_a_tenants_slot_pass_over_what_is_odd(
    redis: Redis, settings: Settings, database: Database
):
    """Reconciliation, erasure and cancelling find what stands beside it."""
    quota, client = Quota(redis, settings, database), redis
    await quota.admit(an_admission(id="r1"))
    await client.zadd("{t:t1}conc", {b"\xff\xfe": 1e13, "r9": 1e13, b"a\0": 1e13})
    assert (await compare_holds(database, redis, quota, "t1", now_ms(), True)).actual >= 1
    await client.hset("{t:t1}posted", mapping={"requests": "x", "cost_nano": "inf"})
    await quota.posted("t1")
    await client.set("{t:t1}rq:r2", "x")
    assert set(await keys_of_requests(redis, "t1", ["r1", "r2"])) == {"r1", "r2"}
    for name in ("conc", "posted"):
        await client.set(f"{{t:t1}}{name}", "x")
    assert (await compare_holds(database, redis, quota, "t1", now_ms(), True)).actual == 0
    assert await quota.posted("t1") is None
    assert await quota.open_requests("t1") == 0
    assert [id for id, _ in await open_of(redis, OwnerFilter("t1"))] == ["r1"]


async def test_a_pools_keys_of_another_type_show_nobody(redis: Redis, settings: Settings, database: Database):
    """Who restores, and who looks at the status, sees the rest."""
    tag = f"{{p:{settings.pool}}}"
    await redis.mset({f"{tag}{name}": "x" for name in ("workers", "gws", "age:bulk", "ended")})
    assert await living_processes(redis, settings.pool, settings) == []
    assert (await read_status(settings, redis, database)).waiting["bulk"] == 0


@pytest.mark.parametrize("moment", [10**15, 2**53, -(10**15), 2**70])
def test_a_time_beyond_any_calendar_is_no_traceback(moment: int):
    """It is shown as none."""
    assert time_of_day(moment) is None
    assert iso_time(moment) is None
