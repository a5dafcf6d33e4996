"""Hours of dedicated pools in the books: once, whoever takes and books them how often, and what came late."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlmodel import col, select

from billing.booking.rollups import rebuild
from billing.dedicated_pools import meter as metering
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus, cost_at, gpu_costs, set_gpu_cost
from billing.dedicated_pools.hours import HOUR_MS, ready_key
from billing.dedicated_pools.meter import PoolMeter
from billing.dedicated_pools.posting import hours_due, post_hours
from billing.dedicated_pools.reports import PoolSeconds, pool_hours, pool_seconds, pool_usage
from billing.dedicated_pools.store import store, take
from billing.ledger.verify import verify_ledger
from billing.periods import PeriodWindow
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import gpu_second_nano
from billing.reports.usage_report import GroupBy, usage_in
from billing.tables.dedicated_pools import PoolInterval
from billing.tables.ledger import UsageLine
from billing.tables.tenants import Tenant
from core.configuration.settings import Settings
from core.errors import Refused
from core.redis.pools import announce_pool
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import (
    DOLLAR,
    HOUR,
    NOW_HOUR,
    a_tenant,
    after,
    an_interval,
    balance,
    dedicate,
)
from tests.support.redis import Redis


async def lines(database: Database, tenant: Tenant) -> list[tuple[str, int, int]]:
    """(meter, quantity, nano) of all lines of books that are right, whose rollups can be made again."""
    async with database.session() as session:
        own = select(UsageLine).where(col(UsageLine.tenant_id) == tenant.tenant_id)
        found = (await session.exec(own.order_by(col(UsageLine.seq)))).all()
    assert (await verify_ledger(database, tenant.tenant_id)).faults == []
    await rebuild(database, tenant.tenant_id)
    assert (await verify_ledger(database, tenant.tenant_id)).faults == []
    return [(line.meter, line.quantity, line.amount_nano) for line in found]


async def test_an_hour_is_booked_once_when_it_is_over(database: Database) -> None:
    """Intervals that come twice, and billers that book at once, change nothing."""
    tenant = await a_tenant(database)
    await dedicate(database, "a", tenant.tenant_id)
    for _ in range(2):
        await store(database, [an_interval(0, 0, 1_000), an_interval(0, 100, 200), an_interval(0, 5, 9, "v")])
    await store(database, [an_interval(0, 0, 900)])
    assert await post_hours(database, after(1) - 1) == 0
    await asyncio.gather(*(post_hours(database, after(1)) for _ in range(3)))
    assert await lines(database, tenant) == [("gpu_second", 1_004, 1_004 * DOLLAR // 1_000)]
    assert await post_hours(database, after(1)) == 0
    (usage,) = await usage_in(
        database, tenant.tenant_id, PeriodWindow(HOUR, after(1)), GroupBy.POOL, ZoneInfo("UTC")
    )
    assert (usage.group, usage.requests, usage.amount_nano) == ("a", 0, 1_004 * DOLLAR // 1_000)


async def test_what_comes_late_adds_its_difference(database: Database) -> None:
    """In any order and in any parts, the same lines add up to the same bill."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    tenant = await a_tenant(database)
    await dedicate(database, "a", tenant.tenant_id)
    starts = range(0, 3_600, 300)
    pile = [an_interval(hour, at, at + 250, worker) for hour in (0, 1) for at in starts for worker in "vw"]
    shorter = [an_interval(hour, at, at + 100, worker) for hour in (0, 1) for at in starts for worker in "vw"]
    pile += chosen.sample(pile, 10) + shorter
    chosen.shuffle(pile)
    while pile:
        size = chosen.randint(1, 20)
        await store(database, pile[:size])
        pile = pile[size:]
        await post_hours(database, after(chosen.choice((1, 2))))
    await post_hours(database, after(2))
    found = await lines(database, tenant)
    assert sum(quantity for _, quantity, _ in found) == 2 * 12 * 2 * 250
    assert sum(amount for *_, amount in found) == 12 * DOLLAR


async def test_billers_that_store_and_book_at_once_lose_nothing(database: Database) -> None:
    """An hour that is booked while its intervals grow is booked again."""
    tenant = await a_tenant(database)
    await dedicate(database, "a", tenant.tenant_id)

    async def grow(worker: str) -> None:
        for end in range(60, 3_601, 590):
            await store(database, [an_interval(0, 0, end, worker)])
            await post_hours(database, after(1))

    await asyncio.gather(*(grow(worker) for worker in ("u", "v", "u")))
    await post_hours(database, after(1))
    assert sum(quantity for _, quantity, _ in await lines(database, tenant)) == 2 * 3_600
    assert await post_hours(database, after(1)) == 0


async def test_an_owner_pays_from_its_time_to_its_release(database: Database) -> None:
    """To the second; before and after the pool is shared and bills tokens."""
    tenant, other = await a_tenant(database), await a_tenant(database, "other")
    await dedicate(database, "a", tenant.tenant_id, HOUR + 600_000)
    await dedicate(database, "a", "", HOUR + 1_200_000)
    await dedicate(database, "a", other.tenant_id, HOUR + 3_000_000)
    await store(database, [an_interval(0, 0, 3_600)])
    await post_hours(database, after(1))
    assert await lines(database, tenant) == [("gpu_second", 600, 600 * DOLLAR // 1_000)]
    assert await lines(database, other) == [("gpu_second", 600, 600 * DOLLAR // 1_000)]


async def test_a_gpu_without_a_price_waits_for_one(database: Database) -> None:
    """It is not booked at zero; with a price it is, and an hour keeps the price that it was
    booked at. Others do not wait for it."""
    tenant, other = await a_tenant(database, priced=False), await a_tenant(database, "other")
    await dedicate(database, "a", tenant.tenant_id)
    await dedicate(database, "b", other.tenant_id)
    await store(database, [an_interval(0, 0, 10), an_interval(0, 0, 10, "v", "b")])
    await post_hours(database, after(1))
    assert await lines(database, tenant) == []
    assert await lines(database, other) == [("gpu_second", 10, DOLLAR // 100)]
    assert await hours_due(database, after(1)) == [HOUR]
    gpus = {"*": gpu_second_nano(36 * DOLLAR)}
    await add_version(database, NewVersion("book of acme", {"*": FlatPrices(1, 1, 1, 0)}, gpus=gpus))
    await post_hours(database, after(1))
    assert await lines(database, tenant) == [("gpu_second", 10, DOLLAR // 10)]
    assert await hours_due(database, after(1)) == []
    gpus = {"*": gpu_second_nano(72 * DOLLAR)}
    await add_version(database, NewVersion("book of acme", {"*": FlatPrices(1, 1, 1, 0)}, gpus=gpus))
    await store(database, [an_interval(0, 20, 30)])
    await post_hours(database, after(1))
    assert await lines(database, tenant) == [("gpu_second", 10, DOLLAR // 10)] * 2


@pytest.mark.parametrize("payment", ["monthly", "upfront"])
async def test_a_commitment_is_paid_hour_by_hour_or_upfront(database: Database, payment: str) -> None:
    """Used or not; what is used beyond is overage. Upfront it is owed at once and earned by the hour."""
    tenant = await a_tenant(database)
    await dedicate(database, "a", tenant.tenant_id)
    terms = GpuTerms("h200", 1, HOUR, HOUR + 3 * HOUR_MS, DOLLAR, 2 * DOLLAR, payment=payment)
    await commit_gpus(database, tenant.tenant_id, terms)
    assert await balance(database, tenant, "receivable") == (3 * DOLLAR if payment == "upfront" else 0)
    both = [an_interval(1, 0, 3_600), an_interval(1, 0, 1_800, "v")]
    await store(database, both)
    await post_hours(database, after(2))
    await post_hours(database, after(5))
    await post_hours(database, after(5))
    found = await lines(database, tenant)
    assert found.count(("reserved_gpu_second", 3_600, DOLLAR)) == 3
    assert [line for line in found if line[0] == "gpu_second"] == [
        ("gpu_second", 3_600, 0),
        ("gpu_second", 1_800, DOLLAR),
    ]
    assert await balance(database, tenant, "receivable") == 4 * DOLLAR
    assert await balance(database, tenant, "deferred") == 0
    assert await balance(database, tenant, "revenue:reserved_gpu_second") == -3 * DOLLAR


async def test_what_cannot_be_committed_to_is_refused(database: Database) -> None:
    """Nothing below zero, beyond bounds, or in hours that are booked."""
    tenant = await a_tenant(database)
    good: dict[str, Any] = {
        "gpu_type": "h200",
        "gpus": 1,
        "start_ms": HOUR,
        "end_ms": HOUR + HOUR_MS,
        "rate_nano": 1,
    }
    changes: list[dict[str, Any]] = [
        {"gpus": 0},
        {"gpus": 9_999},
        {"rate_nano": -1},
        {"overage_nano": -1},
        {"rate_nano": 40_000 * DOLLAR},
        {"payment": "never"},
        {"start_ms": HOUR + 1},
        {"start_ms": NOW_HOUR - HOUR_MS},
        {"end_ms": HOUR},
        {"end_ms": HOUR + 50_000 * HOUR_MS},
        {"gpu_type": ""},
    ]
    for change in changes:
        with pytest.raises(Refused):
            await commit_gpus(database, tenant.tenant_id, GpuTerms(**{**good, **change}))


async def test_ready_time_is_taken_from_redis_and_forgotten_when_it_is_stored(
    redis: Redis, settings: Settings, database: Database
) -> None:
    """An open interval stays for the next heartbeat, a closed one goes; one that was extended between the
    reading and the forgetting stays too, and what cannot be read holds up nobody."""
    client: Any = redis
    pool = settings.pool
    await announce_pool(redis, settings, pool)
    seconds, micros = await client.time()
    now = int(seconds) * 1000 + int(micros) // 1000
    start = now - now % HOUR_MS
    entries = {
        f"{start} open": f"{max(start, now - 1)} 0 1 ready GPU-1 h200",
        f"{start} closed": f"{start + 5} 3 1 ready GPU-2 h200",
        f"{start - HOUR_MS} dead": f"{start - 70_000} 0 1 ready GPU-3 h200",
        "nonsense": "x",
    }
    await client.hset(ready_key(pool), mapping=entries)
    await client.hset(f"{ready_key(pool)}_open", mapping={"open": start, "dead": start - HOUR_MS})
    meter = PoolMeter(database, redis, settings)
    assert await meter.take() == 3
    left = {name.decode() for name in await client.hkeys(ready_key(pool))}
    assert left == {f"{start} open", "nonsense"}
    await client.hset(ready_key(pool), f"{start} closed", f"{start + 5} 3 1 ready GPU-2 h200")
    assert await take(database, redis, pool) == 2
    async with database.session() as session:
        stored = (await session.exec(select(PoolInterval))).all()
    assert {row.worker: (row.to_ms - row.from_ms, row.busy_ms) for row in stored} == {
        "open": (max(start, now - 1) - start, 0),
        "closed": (5, 3),
        "dead": (HOUR_MS - 70_000, 0),
    }


async def test_ready_time_is_taken_often_and_hours_are_booked_now_and_then(
    redis: Redis, settings: Settings, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every ten seconds, and booked at once and then at every sixth look; what fails is tried again."""
    stop, done, waited = asyncio.Event(), list[str](), list[float]()

    @asynccontextmanager
    async def at_once(seconds: float) -> AsyncGenerator[None]:
        waited.append(seconds)
        if waited:
            raise TimeoutError
        yield

    monkeypatch.setattr(metering, "asyncio", SimpleNamespace(timeout=at_once))

    async def taken(_: PoolMeter) -> int:
        done.append("take")
        if done.count("take") == 8:
            stop.set()
        if done.count("take") == 2:
            raise OSError
        return 0

    async def booked(*_: Any) -> None:
        done.append("book")

    monkeypatch.setattr(PoolMeter, "take", taken)
    monkeypatch.setattr(metering, "post_hours", booked)
    await PoolMeter(sqlite, redis, settings).run(stop)
    assert done == ["take", "book", *["take"] * 6, "book", "take"]
    assert waited == [10.0] * 8


async def test_gpus_cost_us_what_was_said_last(database: Database) -> None:
    """Of its region, else of all; of its type, else of any; from its time on."""
    for gpu_type, region, hour_nano, at in (("*", "", 1, 0), ("h200", "", 2, 0), ("h200", "eu", 3, 10)):
        await set_gpu_cost(database, gpu_type, region, hour_nano, at)
    async with database.session() as session:
        costs = await gpu_costs(session)
    assert [cost_at(costs, kind, at) for kind, at in (("h200", 0), ("b300", 0), ("h200", -1))] == [2, 1, None]
    assert [cost_at(costs, "h200", at, "eu") for at in (9, 10)] == [2, 3]
    with pytest.raises(Refused):
        await set_gpu_cost(database, "h200", "eu", 4, 10)
    with pytest.raises(Refused):
        await set_gpu_cost(database, "h200", "eu", -1, 11)


async def test_what_was_metered_is_what_was_billed_idle_or_free(database: Database) -> None:
    """A pool's GPU-seconds add up; owners see what was idle, operators what a GPU-hour earned and cost."""
    tenant = await a_tenant(database)
    await dedicate(database, "a", tenant.tenant_id, HOUR + 1_000_000)
    await dedicate(database, "b", tenant.tenant_id)
    await set_gpu_cost(database, "h200", "", DOLLAR, 0)
    terms = GpuTerms("h200", 1, HOUR, HOUR + HOUR_MS, DOLLAR, pool="b")
    await commit_gpus(database, tenant.tenant_id, terms)
    await store(database, [an_interval(0, 0, 3_000), an_interval(0, 0, 3_600, "v", "b")])
    window = PeriodWindow(HOUR, HOUR + HOUR_MS)
    before = await pool_seconds(database, "a", window)
    assert (before.ready, before.billed, before.idle, before.free) == (3_000, 0, 500, 500)
    await post_hours(database, after(1))
    found = await pool_seconds(database, "a", window)
    assert found == PoolSeconds(ready=3_000, billed=2_000, idle=500, free=500)
    assert await pool_seconds(database, "b", window) == PoolSeconds(3_600, 3_600, 0, 0)
    assert await pool_hours(database, window) == {("a", HOUR): (3_000, 1_500), ("b", HOUR): (3_600, 1_800)}
    shared, own, other = await pool_usage(database, window)
    assert (shared.tenant_id, shared.ready, shared.idle, shared.cost_nano) == (
        "",
        1_000,
        500,
        DOLLAR * 10 // 36 + 1,
    )
    assert (own.ready, own.busy, own.idle, own.committed, own.overage) == (2_000, 1_000, 1_000, 0, 2_000)
    assert (own.gpu_nano, own.margin_nano_per_hour) == (2 * DOLLAR, 26 * DOLLAR // 10 - 1)
    assert (other.committed, other.overage, other.reserved) == (3_600, 0, 3_600)
    assert (other.gpu_nano, other.margin_nano_per_hour) == (DOLLAR, 0)
    assert await pool_usage(database, window, tenant.tenant_id) == [own, other]
