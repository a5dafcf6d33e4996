"""Months that are over are closed by a biller, once each and in their order, and never while some of their
usage is under way."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from billing.closing.due_months import due_month
from billing.ledger.verify import verify_ledger
from billing.periods import Calendar, ClosedMonth, PeriodWindow, month_number
from billing.posting import month_ends
from billing.posting.month_ends import LeftOpen, close_due_months, close_months_forever
from billing.tables.prices import PeriodClose
from billing.tables.tenants import PLATFORM, Tenant
from billing.tables.wallets import AlertTarget, Outbox
from billing.tenants.tenancy import create_tenant
from billing.usage import ENDED_FIELD, encode, ended_stream
from core.clock import clock_from, now_ms
from core.configuration.settings import Settings
from core.redis.pools import announce_pool
from core.sql.database import Database
from tests.billing.closing.closing_month import GRADUATED, a_request, a_tenant, owed, rows, used
from tests.billing.spending import Moment
from tests.support.patience import wait_until
from tests.support.processes import begun
from tests.support.redis import Redis

BERLIN = ZoneInfo("Europe/Berlin")
DAY_MS = 24 * 3_600_000


def at(month: int, day: int, hour: int = 12) -> Moment:
    """An hour of 2025, in UTC."""
    return Moment(datetime(2025, month, day, hour, tzinfo=UTC))


async def months(db: Database, tenant: Tenant) -> list[str]:
    """The tenant's closed ones, in order."""
    found: list[PeriodClose] = await rows(db, PeriodClose, tenant)
    assert all(each.lacks is None for each in found), "it never forces"
    return sorted(each.month for each in found)


async def a_tiered_tenant(db: Database, *used_in: int, name: str = "acme") -> Tenant:
    """One that used something in these months of 2025, whose tiers make its close book something."""
    tenant = await a_tenant(db, GRADUATED, name=name)
    await used(db, *(a_request(month, tenant, month, 25_000) for month in used_in))
    return tenant


def test_a_month_is_due_so_many_hours_after_its_end_in_the_tenants_zone() -> None:
    """In their order: after a closed one the next, at first the one with the first use; of none nothing."""
    calendar, november = Calendar(BERLIN), month_number(2025, 11)
    end = int(datetime(2025, 12, 1, tzinfo=BERLIN).timestamp() * 1000)
    first = end - 40 * DAY_MS
    october_end = calendar.window(november).start_ms
    assert due_month(calendar, first, None, october_end + DAY_MS - 1, DAY_MS) is None
    assert due_month(calendar, first, None, october_end + DAY_MS, DAY_MS) == november - 1
    assert due_month(calendar, None, None, end + DAY_MS, DAY_MS) is None
    closed = {november - 1: ClosedMonth(calendar.window(november - 1), BERLIN)}
    after = Calendar(BERLIN, closed)
    assert due_month(after, None, None, end + DAY_MS - 1, DAY_MS) is None
    assert due_month(after, None, None, end + DAY_MS, DAY_MS) == november
    assert due_month(after, None, october_end - 1, end + DAY_MS, DAY_MS) is None
    assert PeriodWindow(october_end, end) == after.window(november)


async def test_each_month_is_closed_once_and_in_its_order(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """A second look changes nothing; months without use are closed too, the running one is not."""
    tenant, idle = await a_tiered_tenant(database, 2, 4), await create_tenant(database, "idle")
    with clock_from(at(5, 1, 23)):
        assert await close_due_months(database, redis, settings) == []
        assert await months(database, tenant) == ["2025-02", "2025-03"]
    with clock_from(at(5, 2, 1)), capture_logs() as logs:
        assert await close_due_months(database, redis, settings) == []
        before = await owed(database, tenant)
        assert await close_due_months(database, redis, settings) == []
    assert await months(database, tenant) == ["2025-02", "2025-03", "2025-04"]
    assert await months(database, idle) == []
    assert await owed(database, tenant) == before
    assert [each["month"] for each in logs if each["event"] == "months.closed"] == ["2025-04"]


async def test_two_billers_at_once_close_each_month_once(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Whoever is second finds it closed."""
    tenant = await a_tiered_tenant(database, 2)
    with clock_from(at(6, 20)), capture_logs() as logs:
        looks = (close_due_months(database, redis, settings) for _ in range(3))
        assert await asyncio.gather(*looks) == [[], [], []]
    assert await months(database, tenant) == ["2025-02", "2025-03", "2025-04", "2025-05"]
    told = [each["month"] for each in logs if each["event"] == "months.closed"]
    assert sorted(told) == await months(database, tenant)
    await owed(database, tenant)


async def test_a_month_with_usage_under_way_stays_open_and_says_why(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """To the operators once a day; others are closed. Once it is booked, the next look closes it."""
    tenant, other = await a_tiered_tenant(database, 2), await a_tiered_tenant(database, 2, name="other")
    late = a_request(9, tenant, 2, 100)
    await announce_pool(redis, settings, "default")
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: encode(late)})
    async with database.transaction() as session:
        session.add(AlertTarget(tenant_id=PLATFORM, id="one", kind="email", address="x", created_ms=0))
    left = LeftOpen(tenant.tenant_id, "2025-02", "pool default: 1 undelivered")
    with clock_from(at(3, 10)), capture_logs() as logs:
        assert await close_due_months(database, redis, settings) == [left]
        assert await close_due_months(database, redis, settings) == [left]
    told = [each for each in logs if each["event"] == "months.left_open"]
    assert [(each["month"], each["why"]) for each in told] == [(left.month, left.why)] * 2
    assert (await months(database, tenant), await months(database, other)) == ([], ["2025-02"])
    [mail] = await _outbox(database)
    assert (mail.payload["type"], mail.payload["why"]) == ("month.left_open", left.why)
    await redis.delete(ended_stream("default"))
    await used(database, late)
    with clock_from(at(3, 10)):
        assert await close_due_months(database, redis, settings) == []
    assert await months(database, tenant) == ["2025-02"]


async def test_where_redis_is_away_no_month_is_closed(database: Database, settings: Settings) -> None:
    """Nobody could say what is under way."""
    tenant = await a_tiered_tenant(database, 2)
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1"})
    async with Redis.from_url("redis://127.0.0.1:1") as redis:
        with clock_from(at(3, 10)):
            [left] = await close_due_months(database, redis, away)
    assert left == LeftOpen(
        tenant.tenant_id, "2025-02", "Redis could not be asked what is open or undelivered"
    )


async def test_by_setting_none_is_closed(database: Database, redis: Redis, settings: Settings) -> None:
    """Then there is nothing to do, and the task ends."""
    never = settings.model_copy(update={"close_months_after_hours": 0})
    await close_months_forever(database, redis, never, asyncio.Event())


async def test_a_biller_looks_again_and_again_until_it_stops(
    database: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that fails ends nothing."""
    monkeypatch.setattr(month_ends, "LOOK_SECONDS", 0.01)
    tenant, stop = await a_tiered_tenant(database, 2), asyncio.Event()
    with clock_from(at(3, 10)):
        looking = asyncio.create_task(close_months_forever(database, redis, settings, stop))
        await wait_until(lambda: _closed(database, tenant, 1))
        stop.set()
        await looking


async def test_kill_9_leaves_no_month_half_closed(
    database: Database, database_url: str, redis: Redis, settings: Settings
) -> None:
    """What a death takes, it takes whole: the next biller goes on behind it, and books nothing twice."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    tenants = [await a_tiered_tenant(database, 1, 2, 3, name=f"t{number}") for number in range(3)]
    arguments = ["-m", "tests.billing.posting.closer_process", str(settings.home), settings.redis_endpoint]
    for count in range(2):
        process = await begun([sys.executable, *arguments, database_url])
        try:
            await wait_until(lambda least=1 + 2 * count: _closed(database, tenants[0], least))
            await asyncio.sleep(rng.uniform(0, 0.05))  # a random moment, nothing waits for it
        finally:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    assert await close_due_months(database, redis, settings) == []
    sums = {await owed(database, tenant) for tenant in tenants}
    assert len(sums) == 1
    over = datetime.fromtimestamp(now_ms() / 1000, UTC) - timedelta(days=2)
    for tenant in tenants:
        found = await months(database, tenant)
        assert found[-1] < f"{over:%Y-%m}"
        assert found[:3] == ["2025-01", "2025-02", "2025-03"]
        assert len(found) == len(set(found))
        assert (await verify_ledger(database, tenant.tenant_id)).faults == []


async def _closed(database: Database, tenant: Tenant, least: int) -> bool:
    return len(await months(database, tenant)) >= least


async def _outbox(database: Database) -> Sequence[Outbox]:
    nobody = Tenant(tenant_id=PLATFORM, name="", price_book_id="", priority_max="", created_ms=0)
    return await rows(database, Outbox, nobody)
