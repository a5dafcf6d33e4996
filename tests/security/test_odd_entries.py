"""What a worker plants by plain commands where others read members and fields: one odd entry is set aside
alone, and what stands beside it is read."""

from collections.abc import Callable
from typing import Any

import pytest

from billing.api import Quota
from billing.limits import Dimension, RequestLimits, Scope, UnitLimit
from billing.quota.open_requests import OwnerFilter, open_of
from billing.quota.unposted_usage import unposted_usage
from billing.requests.held_requests import held_of, tenants_holding
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.members import NAME_BYTES_MAX, names
from engine.operations.inspection import Inspection
from engine.queue.client import PoolQueue
from engine.request import RequestStatus
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis

POOL = "A"
LIVE, RQ = "{t:t1}live", "{t:t1}rq:"
ODD = (b"\xff\xfe", b"", b"x" * (NAME_BYTES_MAX + 1))


async def sweeps(redis: Redis, settings: Settings) -> list[set[str]]:
    """The ids that each reader of a tenant's open requests finds."""
    quota = Quota(redis, settings)
    found = await open_of(redis, OwnerFilter("t1"))
    unposted = await unposted_usage(redis, [POOL], "t1", now_ms() + 1_000)
    assert not unposted.unreachable
    assert len(unposted.open) == len(found)
    holds = await quota.holds("t1")
    stale = await quota.stale("t1", older_than_ms=-1_000)
    return [{id for id, _ in found}, {hold.id for hold in holds}, {id for id, _ in stale}]


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_member_hides_no_open_request(odd: bytes, redis: Redis, settings: Settings):
    """Those who cancel, close a month, erase and sweep find the others."""
    await Quota(redis, settings).admit(an_admission(id="r1"))
    await redis.zadd(LIVE, {odd: 1.0})
    assert await sweeps(redis, settings) == [{"r1"}] * 3


async def test_a_key_of_another_type_holds_nothing(redis: Redis, settings: Settings):
    """Nobody ends in a traceback, and a record of another type hides no other."""
    quota: Any = Quota(redis, settings)
    for id in ("r1", "r2"):
        await quota.admit(an_admission(id=id))
    await redis.set(f"{RQ}r1", "x")
    assert await sweeps(redis, settings) == [{"r2"}] * 3
    assert await quota.directory("t1", "r1") is None
    assert await held_of(redis, "t1", "r1") is None
    assert await tenants_holding(redis, ["t1", "t2"], "r1") == []
    await redis.set(LIVE, "x")
    assert await sweeps(redis, settings) == [set()] * 3


@pytest.mark.parametrize("value", ["x", "inf", "1:2", "9" * 40, "-inf:nan:0x10", None])
async def test_a_count_that_is_none_is_shown_as_nothing(value: str | None, redis: Redis, settings: Settings):
    """Whoever asks for the use of limits gets an answer."""
    of = UnitLimit(Scope.TENANT, "", "*", Dimension.REQUESTS, 3, 3)
    limits = RequestLimits((of,), ())
    key = "{t:t1}" + limits.units[0].key
    await (redis.set(key, value) if value else redis.rpush(key, "x"))
    (used,) = await Quota(redis, settings).use("t1", limits)
    assert used.spent >= 0


PLANTS: dict[str, Callable[[Any], Any]] = {
    "member": lambda redis: redis.zadd(f"{{p:{POOL}}}deadlines", {b"\xff\xfe": 1, b"nocolon": 2}),
    "lines": lambda redis: redis.zadd(f"{{p:{POOL}}}act:standard", {b"\xff": float("inf"), b"t9": 2}),
    "age": lambda redis: redis.zadd(f"{{p:{POOL}}}age:standard", {b"\xff": float("-inf")}),
    "blocked": lambda redis: redis.sadd(f"{{p:{POOL}}}blocked:bulk", b"\xff"),
    "tenant": lambda redis: redis.hset(f"{{p:{POOL}}}ten:t9", mapping={"weight": "x", "tokens": "inf"}),
    "worker": lambda redis: redis.zadd(f"{{p:{POOL}}}workers", {b"\xff": float("inf"), b"w": float("inf")}),
    "worker record": lambda redis: redis.set(f"{{p:{POOL}}}worker:w", "x"),
    "record": lambda redis: redis.hset(f"{{p:{POOL}}}req:t1:r1", mapping={"status": b"\xff", "n": "nan"}),
    "record type": lambda redis: redis.set(f"{{p:{POOL}}}req:t1:r1", "x"),
    "types": lambda redis: redis.mset(
        {f"{{p:{POOL}}}{name}": "x" for name in ("moving", "workers", "act:bulk", "blocked:bulk", "age:bulk")}
    ),
}


@pytest.mark.parametrize("name", PLANTS)
async def test_operators_see_the_rest(name: str, redis: Redis, settings: Settings):
    """Lists and views of a pool end in no traceback."""
    client: Any = redis
    await client.zadd(f"{{p:{POOL}}}deadlines", {"t1:r1": 3, "t1:r2": 4})
    await client.hset(f"{{p:{POOL}}}req:t1:r2", mapping={"status": "queued", "class": "standard"})
    await client.zadd(f"{{p:{POOL}}}act:standard", {"t9": 1})
    await PLANTS[name](client)
    inspection = Inspection(PoolQueue(redis, POOL, settings))
    assert "r2" in {row.id for row in await inspection.requests(None, None, 10)}
    assert {row.id for row in await inspection.requests(None, RequestStatus.QUEUED, 10)} == {"r2"}
    assert await inspection.request("t1", "r2") is not None
    await inspection.request("t1", "r1")
    await inspection.snapshot()


def test_what_is_set_aside_is_no_name():
    """Neither bytes that are no text, nor what is longer than any of ours."""
    assert names("k", [b"a", *ODD]) == ["a", ""]
