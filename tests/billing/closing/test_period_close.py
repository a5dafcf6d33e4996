"""Months are closed once: what tiers and commitments make of them is booked as the difference, late usage
with the next month under the name of its own."""

import asyncio
import random
from zoneinfo import ZoneInfo

import msgspec
import pytest

from billing.closing.period_close import CloseOptions, close_period
from billing.closing.period_commitments import NewCommitment, commit
from billing.dedicated_pools.hours import HOUR_MS
from billing.dedicated_pools.posting import post_hours
from billing.money import NANO
from billing.periods import Period, PeriodWindow, window_at
from billing.prices.rating import Meter
from billing.prices.tiers import Tier, TierMode, TierPrices
from billing.prices.true_up import CommittedInPeriod
from billing.quota.unposted_usage import UnpostedUsage
from billing.reports.usage_report import GroupBy, usage_in
from billing.tables.dedicated_pools import Commitment
from billing.tables.ledger import LedgerTxn, UsageLine
from billing.tables.prices import Charge, PeriodClose
from billing.tables.tenants import Tenant
from billing.usage import PinnedPrices
from core.errors import Refused
from core.sql.database import Database, insert_rows
from tests.billing.closing.closing_month import (
    GRADUATED,
    MILLION,
    ZONE,
    a_request,
    a_tenant,
    closed,
    in_month,
    owed,
    rows,
    used,
    window,
)
from tests.billing.dedicated_pools.dedicated import dedicate
from tests.billing.events import an_event


async def committed(
    database: Database, tenant: Tenant, terms: CommittedInPeriod, months: PeriodWindow
) -> None:
    """A commitment that is made when its first month begins."""
    await commit(database, tenant, NewCommitment(terms, months), now=months.start_ms)


async def test_a_month_is_closed_once(database: Database) -> None:
    """INV-37: The difference to the tiers is booked once, also by several at once, and
    a second time shows it. A dry run says the same before and changes nothing."""
    tenant = await a_tenant(database, GRADUATED)
    events = [a_request(number, tenant, 1, 700 * number) for number in range(1, 10)]
    await used(database, *events)
    flat_nano = await owed(database, tenant)
    assert flat_nano == 31_500 * 400
    dry = await closed(database, tenant, 1, dry_run=True)
    assert (dry.closed_ms, dry.amount_nano) == (None, 21_500 * (100 - 400))
    assert await owed(database, tenant) == flat_nano
    closings = await asyncio.gather(*(closed(database, tenant, 1) for _ in range(4)))
    assert [each.amount_nano for each in closings] == [dry.amount_nano] * 4
    assert sum(each.booked_now for each in closings) == 1
    assert await owed(database, tenant) == 10_000 * 400 + 21_500 * 100
    assert len([txn for txn in await rows(database, LedgerTxn, tenant) if txn.kind == "true_up"]) == 1
    (month,) = await usage_in(database, tenant.tenant_id, window(1), GroupBy.MODEL, ZONE)
    assert (month.requests, month.output_text) == (9, 31_500)
    assert month.amount_nano == await owed(database, tenant)


async def test_the_order_and_batches_of_events_change_no_bill(database: Database) -> None:
    """INV-37: Mixed, repeated and in pieces, under two versions of a price list."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    volume = TierPrices(TierMode.VOLUME, (Tier(4_000, 300 * MILLION), Tier(None, 50 * MILLION)), 3 * MILLION)
    bills: set[int] = set()
    sizes = [(chosen.randrange(2_000), chosen.choice((1, 2))) for _ in range(60)]
    for name in ("one", "two", "three"):
        tenant = await a_tenant(database, GRADUATED, volume, name=name)
        pile = [a_request(n, tenant, 1, size, version) for n, (size, version) in enumerate(sizes)]
        pile += chosen.sample(pile, 20)
        chosen.shuffle(pile)
        while pile:
            size = chosen.randint(1, 40)
            await used(database, *pile[:size])
            pile = pile[size:]
        await closed(database, tenant, 1)
        bills.add(await owed(database, tenant))
    first = sum(size for size, version in sizes if version == 1)
    second = sum(size for size, version in sizes if version == 2)
    cost = min(first, 10_000) * 400 + max(0, first - 10_000) * 100
    assert bills == {max(cost + second * (300 if second <= 4_000 else 50), 3 * MILLION)}


async def test_late_usage_is_trued_up_with_the_next_month_under_its_own_name(database: Database) -> None:
    """What comes after a month was closed changes neither it nor what it costs in all."""
    tenant = await a_tenant(database, GRADUATED)
    await used(database, a_request(1, tenant, 1, 9_000))
    assert (await closed(database, tenant, 1)).amount_nano == 0
    await used(database, a_request(2, tenant, 1, 3_000), a_request(3, tenant, 2, 500))
    again = await closed(database, tenant, 1)
    assert (again.amount_nano, again.booked_now) == (0, False)
    (late,) = [each for each in (await closed(database, tenant, 2)).results if each.true_up.difference_nano]
    assert (late.period, late.true_up.difference_nano) == (window(1), 2_000 * (100 - 400))
    assert await owed(database, tenant) == 10_000 * 400 + 2_000 * 100 + 500 * 400
    (charge,) = await rows(database, Charge, tenant)
    assert (charge.start_ms, charge.end_ms) == window(1)
    (line,) = [line for line in await rows(database, UsageLine, tenant) if line.kind == "true_up"]
    assert (line.ended_ms, line.request_id) == (window(2).end_ms - 1, charge.id)
    assert [each.true_up.difference_nano for each in (await closed(database, tenant, 2)).results] == [
        -600_000
    ]
    assert (await closed(database, tenant, 3)).amount_nano == 0
    assert [close.month for close in await rows(database, PeriodClose, tenant)] == [
        "2025-01",
        "2025-02",
        "2025-03",
    ]


async def test_months_are_closed_in_their_order_when_they_are_over(database: Database) -> None:
    """Each instant once: none is left out, none is closed twice, nor before its end."""
    tenant = await a_tenant(database, GRADUATED)
    await used(database, a_request(1, tenant, 1, 1), a_request(2, tenant, 3, 1))
    with pytest.raises(Refused, match="an earlier month is open"):
        await closed(database, tenant, 3)
    future = PeriodWindow(window(12).end_ms, 4_000_000_000_000)
    with pytest.raises(Refused, match="is not over"):
        await close_period(database, tenant, "2096-10", future, CloseOptions(UnpostedUsage()))
    await closed(database, tenant, 1)
    with pytest.raises(Refused, match="an earlier month is open"):
        await closed(database, tenant, 3)
    await closed(database, tenant, 2)
    await closed(database, tenant, 3)
    late = window_at(Period.MONTH, ZoneInfo("America/New_York"), in_month(4))
    asked = CloseOptions(UnpostedUsage())
    april = await close_period(database, tenant, "2025-04", late, asked)
    assert april.period == (window(3).end_ms, late.end_ms)
    may = window_at(Period.MONTH, ZoneInfo("Asia/Tokyo"), in_month(5))
    assert may.start_ms < late.end_ms, "it began before the closed one ended, and is not before that"
    assert (await close_period(database, tenant, "2025-05", may, asked)).period == (late.end_ms, may.end_ms)
    before = PeriodWindow(window(1).start_ms - 9, window(1).start_ms)
    with pytest.raises(Refused, match="lies before"):
        await close_period(database, tenant, "2024-12", before, asked)


async def test_what_was_committed_to_is_paid_each_month(database: Database) -> None:
    """A thousand tokens for a cent, and at least five cents in all; used or not, and never both twice."""
    tenant = await a_tenant(database, GRADUATED)
    months = PeriodWindow(window(1).start_ms, window(3).end_ms)
    cent = NANO // 100
    units = CommittedInPeriod(cent, "*", Meter.OUTPUT, 1_000, 2_000 * MILLION)
    await committed(database, tenant, units, months)
    await committed(database, tenant, CommittedInPeriod(5 * cent), months)
    await used(database, a_request(1, tenant, 1, 1_100), a_request(2, tenant, 2, 50_000))
    first, second, third, fourth = [(await closed(database, tenant, month)) for month in (1, 2, 3, 4)]
    assert first.amount_nano == 5 * cent - 1_100 * 400
    assert second.amount_nano == cent + 49_000 * 2_000 - 50_000 * 400
    assert (third.amount_nano, fourth.amount_nano) == (5 * cent, 0)
    assert await owed(database, tenant) == 5 * cent + cent + 98 * MILLION + 5 * cent
    for row in (
        units,
        CommittedInPeriod(0),
        CommittedInPeriod(cent, "*", Meter.OUTPUT),
        CommittedInPeriod(cent, "m"),
    ):
        with pytest.raises(Refused):
            await committed(database, tenant, row, months)
    with pytest.raises(Refused, match="is closed"):
        await committed(database, tenant, CommittedInPeriod(cent), window(1))


async def test_hours_of_pools_count_towards_what_was_committed_to_spend(database: Database) -> None:
    """Also those that are booked after the month was closed: the minimum that was too much is given back. A
    request that used nothing, and has no prices, is not in the way."""
    tenant = await a_tenant(database, GRADUATED)
    await committed(database, tenant, CommittedInPeriod(5_000), window(1))
    nothing = an_event("none", tenant.tenant_id, ended_ms=in_month(1), input_uncached=0, input_cached=0)
    unpriced = msgspec.structs.replace(
        nothing, output_text=0, prices=PinnedPrices("", 0, 0, 0, 0), cost_nano=0
    )
    await used(database, unpriced)
    first = await closed(database, tenant, 1)
    assert [(each.true_up.key.meter, each.true_up.cost_nano) for each in first.results] == [
        (Meter.MINIMUM, 5_000)
    ]
    hour = window(1).start_ms
    await dedicate(database, "a", tenant.tenant_id, hour)
    async with database.transaction() as session:
        held = Commitment(
            tenant_id=tenant.tenant_id,
            id="c",
            gpu_type="h200",
            gpus=1,
            rate_nano=700,
            payment="monthly",
            start_ms=hour,
            end_ms=hour + HOUR_MS,
            created_ms=0,
        )
        await insert_rows(session, [held])
    await post_hours(database, hour + 2 * HOUR_MS)
    (late,) = (await closed(database, tenant, 2)).results
    assert (late.period, late.true_up.difference_nano) == (window(1), -700)
    assert await owed(database, tenant) == 5_000
