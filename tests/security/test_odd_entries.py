"""What a worker plants by plain commands where others read members and fields: one odd entry is set aside
alone, and what stands beside it is read."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from billing.api import Quota
from billing.limits import Dimension, RequestLimits, Scope, UnitLimit
from billing.quota import client as quota_client
from billing.quota.open_requests import OwnerFilter, keys_of_requests, open_of
from billing.quota.unposted_usage import unposted_usage
from billing.requests.held_requests import held_of, tenants_holding
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.members import NAME_BYTES_MAX, names
from engine.lifecycle.reaper import Reaper
from engine.operations.inspection import Inspection
from engine.queue import lua_scripts
from engine.queue.client import PoolQueue
from engine.request import RequestStatus
from tests.billing.limited import LimitedTenant, a_budget, a_rate, places
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
    await redis.hset(f"{RQ}r3", mapping={"pool": b"\xff", "hop": "9"})
    assert await quota.rebind("t1", "r3", "B", 1) is None
    assert await held_of(redis, "t1", "r1") is None
    assert await tenants_holding(redis, ["t1", "t2"], "r1") == []
    assert (await keys_of_requests(redis, "t1", ["r1", "r2"])).keys() == {"r1", "r2"}
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


async def test_a_tenants_key_of_another_type_refuses_nobody(redis: Redis, settings: Settings):
    """It holds nothing, so it goes; a send is admitted, extended and settled."""
    tenant = LimitedTenant(redis, settings, a_rate(Dimension.REQUESTS, 60), places(5), a_budget(10**15))
    await tenant.seed()
    keys = [f"{{t:t1}}{limit.key}" for limit in (*tenant.limits.units, *tenant.limits.money)]
    for at, key in enumerate((*keys[:2], LIVE, "{t:t1}conc", "{t:t1}posted", "{t:t1}windows", f"{RQ}r9")):
        await redis.delete(key)
        await (redis.set(key, "x") if at else redis.rpush(key, "x"))
        await tenant.admit(f"r{at}")
        await tenant.extend(f"r{at}", 512)
        assert await tenant.settle(f"r{at}", 10, 10) == "settled"
    await redis.set(keys[2], "x")
    await tenant.ask("again", now_ms=tenant.now)  # it asks for the books' sums
    await tenant.seed()
    await tenant.admit("again")


HIDDEN = ("ticket:x", "sess:s1", "rq:r2", "posted", "", 7, None)


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("kind", ["rates", "concurrency", "money"])
async def test_a_record_names_no_key_of_another_kind(kind: str, name: Any, redis: Redis, settings: Settings):
    """What a release, a settlement or an extension changes is a limit's, whatever the record says."""
    client: Any = redis
    tenant = LimitedTenant(redis, settings, a_rate(Dimension.TOKENS, 10**6), places(5), a_budget(10**15))
    await tenant.seed()
    for end in ("release", "settle"):
        await tenant.admit(end)
        rates, concurrency, money, prices = msgspec.msgpack.decode(await client.hget(f"{RQ}{end}", "limits"))
        {"rates": rates, "concurrency": concurrency, "money": money}[kind][0][0] = name
        packed = msgspec.msgpack.encode((rates, concurrency, money, prices))
        await client.hset(f"{RQ}{end}", "limits", packed)
    await client.mset({f"{{t:t1}}{name}": "spent" for name in ("ticket:x", "sess:s1", "rq:r2", "posted")})
    await tenant.extend("settle", 600)
    await tenant.quota.release("t1", "release", tenant.now)
    for key in ("ticket:x", "sess:s1", "rq:r2"):
        assert await client.get(f"{{t:t1}}{key}") == b"spent"
    assert await tenant.settle("settle", 10, 10) == "settled"
    for key in ("ticket:x", "sess:s1", "rq:r2"):
        assert await client.get(f"{{t:t1}}{key}") == b"spent"


@pytest.mark.parametrize(
    "member", ["ticket|tenant|month|0", "sess|tenant|s|0", "|||", "x", b"\xff", "money|user|a"]
)
async def test_a_window_names_no_key_of_another_kind(member: Any, redis: Redis, settings: Settings):
    """What is booked is added to counts of money alone."""
    tenant = LimitedTenant(redis, settings, a_budget(10**15))
    await tenant.seed()
    await tenant.admit("r1")
    keys = ("{t:t1}ticket:tenant::month:0", "{t:t1}sess:tenant::s:0")
    for key in keys:
        await redis.set(key, "spent")
    await redis.zadd("{t:t1}windows", {member: float(tenant.now + 10**9)})
    assert await tenant.settle("r1", 10, 10, line_seq=5) == "settled"
    assert [await redis.get(key) for key in keys] == [b"spent"] * 2


ODD_NUMBERS = (float("inf"), float("-inf"), float("nan"), 1.5, -1, 1e300, "inf", None, [], {}, "x" * 20_000)


@pytest.mark.parametrize("number", ODD_NUMBERS)
@pytest.mark.parametrize("script", [quota_client._EXTEND, quota_client._ADMIT, lua_scripts.REAP])  # pyright: ignore[reportPrivateUsage]
async def test_no_argument_that_is_no_number_is_reckoned_with(
    script: Any, number: Any, redis: Redis, settings: Settings
):
    """A script raises an error before it does anything: nothing spins, nothing is written."""
    tenant = LimitedTenant(redis, settings, a_budget(1))
    await tenant.seed()
    name = {"extend": "to_tokens", "admit": "chunk_tokens", "reap": "budget"}[script.name]
    given = {field: "" if kind is str else 1 for field, kind in script.call.__annotations__.items()}
    packed = msgspec.msgpack.encode({**given, "now_ms": 1, name: number})
    before = await redis.dbsize()
    with pytest.raises(ResponseError):
        await script.run(redis, ["{t:t1}rq:r1", *["{t:t1}x"] * 3], [packed, *[b""] * 8])
    assert await redis.dbsize() == before


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "0x10", "1.5", "9" * 20, "x", "", " 7"])
async def test_a_field_that_is_no_whole_number_is_nothing(value: str, redis: Redis, settings: Settings):
    """An extension of a record with one gets its target and no more."""
    tenant = LimitedTenant(redis, settings, a_budget(10**15))
    await tenant.seed()
    await tenant.admit("r1")
    for field in ("granted", "input", "hold", "wait"):
        await redis.hset(f"{RQ}r1", field, value)
    await redis.hset("{t:t1}" + tenant.limits.money[0].key, "held", value)
    assert (await tenant.extend("r1", 700)).granted == 700
    assert await tenant.settle("r1", 10, 10) == "settled"


LISTS = ("deadlines", "parked", "unread", "moving", "workers", "gws", "age:standard")
ODD_MEMBERS = ("nocolon", "", ":", b"\xff\xfe", "t1:unknown", "t1:odd", "t1:typed")


@pytest.mark.parametrize("name", LISTS)
async def test_the_reaper_goes_past_odd_entries(name: str, redis: Redis, settings: Settings):
    """What is due behind them is ended, and no entry without a record is there for ever."""
    client: Any = redis
    queue = PoolQueue(redis, POOL, settings)
    tag = f"{{p:{POOL}}}"
    await client.hset(f"{tag}req:t1:odd", mapping={"status": "queued", "deadline": "nan", "order": b"\xff"})
    await client.set(f"{tag}req:t1:typed", "x")
    await client.hset(f"{tag}req:t1:good", mapping={"status": "queued", "deadline": "1", "class": "bulk"})
    await client.sadd(f"{tag}claims:t1:odd", *ODD_MEMBERS)
    await client.sadd(f"{tag}reads:t1:odd", *ODD_MEMBERS)
    for member in ODD_MEMBERS:
        await client.zadd(f"{tag}{name}", {member: 1.0})
    await client.zadd(f"{tag}deadlines", {"t1:good": 2.0})
    with capture_logs() as lines:
        reaped = [await queue.reap(), await queue.reap()]
        await Reaper(queue, Quota(redis, settings), 1_000).once()
    assert all("good" in {each.id for each in round_.expired} for round_ in reaped)
    left = set(await client.zrange(f"{tag}{name}", 0, -1))
    assert left <= {b"t1:odd", b"t1:good", b"t1:typed"} | (set() if name != "unread" else {b"t1:odd"})
    assert not [line for line in lines if line["event"] == "reaper.run_failed"]


@pytest.mark.parametrize("type_", ["string", "list"])
async def test_a_pools_key_of_another_type_stops_no_reaper(type_: str, redis: Redis, settings: Settings):
    """It goes, and what is in the other keys is ended."""
    client: Any = redis
    queue = PoolQueue(redis, POOL, settings)
    tag = f"{{p:{POOL}}}"
    for name in ("sys", "deadlines", "parked", "unread", "moving", "workers", "gws", "age:bulk"):
        key = f"{tag}{name}"
        await client.delete(key)
        await (client.set(key, "x") if type_ == "string" else client.rpush(key, "x"))
        await client.hset(f"{tag}req:t1:good", mapping={"status": "queued", "deadline": "1"})
        if name != "deadlines":
            await client.zadd(f"{tag}deadlines", {"t1:good": 2.0})
        await queue.reap()
        assert {each.id for each in (await queue.reap()).expired} == (
            {"good"} if name != "deadlines" else set()
        )


STAYING: dict[str, dict[str, str | bytes]] = {
    "status": {"status": b"\xff"},
    "unknown status": {"status": "made up"},
    "no record": {"status": "queued"},
    "head": {"status": "queued", "o": "0x10", "model": b"\xff"},
    "log": {"status": "queued", "o": "-7"},
    "running": {"status": "running", "control": "1", "deadline": "9007199254740991", "worker": "w"},
}


@pytest.mark.parametrize("name", STAYING)
@pytest.mark.parametrize("line", ["deadlines", "age:standard"])
async def test_no_number_of_odd_entries_holds_up_the_reaper(
    line: str, name: str, redis: Redis, settings: Settings
):
    """More than one call reads, none of which can be ended or is over: what is due behind them is ended."""
    client: Any = redis
    queue, tag = PoolQueue(redis, POOL, settings), f"{{p:{POOL}}}"
    for id in [*(f"odd{at}" for at in range(250)), "good"]:
        fields = {"deadline": "1", "order": "1", **STAYING[name]}
        names = "o n covered visible cn prompt cached accepted claimed first recomputed"
        numbers = dict.fromkeys(names.split(" "), "0")
        good = {**numbers, "status": "queued", "deadline": "1", "order": "2", "class": "standard"}
        good |= {"fingerprint": "f", "model": "m"}
        await client.hset(f"{tag}req:t1:{id}", mapping=good if id == "good" else fields)
        await client.zadd(f"{tag}{line}", {f"t1:{id}": 2.0 if id == "good" else 1.0})
    reaper = Reaper(queue, Quota(redis, settings), 1_000)
    for _ in range(10):
        await reaper.once()
    assert await client.hget(f"{tag}req:t1:good", "status") == b"ended"
