"""A tenant's own pools, by operation: by day of its zone, their cost to the nano, waits, commitments."""

from collections.abc import Sequence

import pytest

from billing.dedicated_pools.commitments import GpuTerms, commit_gpus
from billing.dedicated_pools.hours import ReadyInterval
from billing.dedicated_pools.own_pools import GpuTime, OwnPool, share_costs
from billing.dedicated_pools.posting import post_hour
from billing.dedicated_pools.reports import PoolLine
from billing.dedicated_pools.store import store
from billing.operations import spend_pools
from billing.operations.spend_pools import AskOwnPools, MonthOfOwnPools, days_of
from billing.periods import HOUR_MS, UTC_ZONE, Calendar, PeriodWindow, month_text, zone_named
from billing.posting.biller import post
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.clock import now_ms
from core.operations import Role
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import DOLLAR, a_tenant, dedicate
from tests.billing.events import an_event
from tests.billing.operations.acting import member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.billing.operations.spent import ready


async def month_of(stores: Stores, tenant: str, at_ms: int) -> MonthOfOwnPools:
    """The month of an instant, as the tenant's payer sees it."""
    month = month_text(Calendar(UTC_ZONE).month_at(at_ms))
    ask = AskOwnPools(tenant=tenant, month=month)
    return await answer_of(spend_pools.show_own_pools, stores, member_of(tenant, Role.BILLING), ask)


async def used(db: Database, hour_ms: int, intervals: Sequence[ReadyInterval]) -> None:
    """Store ready time and book its hour."""
    await store(db, intervals)
    await post_hour(db, hour_ms, now_ms())


async def test_used_and_idle_time_and_their_cost_are_shown_by_day(stores: Stores) -> None:
    """What is booked of the pool is the cost; used and idle add up to it. Another's pool is not shown, and a
    device that a worker of another pool reports too counts once."""
    db, hour = stores.db, now_ms() // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    mine, other = (await a_tenant(db, "mine")).tenant_id, (await a_tenant(db, "else")).tenant_id
    for pool, tenant in (("a", mine), ("b", other)):
        await dedicate(db, pool, tenant, hour)
    intervals = [ready(hour, "a", "w1", 3_600), ready(hour, "a", "w2", 360), ready(hour, "b", "w3", 0)]
    await used(db, hour, [*intervals, ready(hour, "b", "w4", 3_600, device="GPU-w1")])
    waited = {"pool": "a", "accepted_ms": hour, "claimed_ms": hour + 3_400, "ended_ms": hour + 9_000}
    await post(db, "a", [encode(an_event("r", mine, **waited))])
    found = await month_of(stores, mine, hour)
    (pool,) = found.pools
    assert (pool.pool, pool.gpu_types) == ("a", ["h200"])
    assert (pool.ready_gpu_seconds, pool.busy_gpu_seconds, pool.idle_gpu_seconds) == (7_200, 3_960, 3_240)
    assert pool.cost.value == 36 * DOLLAR // 5
    assert (pool.used.value, pool.idle.value) == (pool.cost.value * 55 // 100, pool.cost.value * 45 // 100)
    assert sum(day.ready_gpu_seconds for day in pool.days) == 7_200
    assert (pool.longest_wait_ms, pool.commitments) == (3_400, [])
    assert pool.busiest is not None
    assert pool.busiest.busy_gpu_seconds == 3_960
    assert (await month_of(stores, mine, hour - 70 * 24 * HOUR_MS)).pools == []


async def test_a_commitment_says_until_when_and_is_paid_while_idle(stores: Stores) -> None:
    """One to any pool of the tenant's is shared out by ready time."""
    db, hour = stores.db, now_ms() // HOUR_MS * HOUR_MS
    mine = (await a_tenant(db, "mine")).tenant_id
    await dedicate(db, "a", mine, hour)
    terms = GpuTerms("h200", 2, hour, hour + 48 * HOUR_MS, 2 * DOLLAR)
    held = await commit_gpus(db, mine, terms)
    await used(db, hour, [ready(hour, "a", "w1", 1_800)])
    (pool,) = (await month_of(stores, mine, hour)).pools
    assert pool.cost.value == 4 * DOLLAR
    (told,) = pool.commitments
    assert (told.gpus, told.gpu, told.any_pool, told.rate.value) == (2, "h200", True, 2 * DOLLAR)
    assert told.until is not None
    assert held.until_ms == hour + 48 * HOUR_MS


def test_what_is_of_no_one_pool_is_shared_out_to_the_nano() -> None:
    """By ready time of the type of GPU; evenly where nothing was ready."""
    pools = {name: OwnPool(name, {"h200"}, {0: GpuTime(ready, 0)}) for name, ready in (("a", 2), ("b", 1))}
    pools["c"] = OwnPool("c", {"b200"}, {0: GpuTime(9, 0)})
    line = PoolLine("t", "", "h200", "reserved_gpu_second", 1, 1, 100)
    share_costs(pools, [line])
    assert [each.cost_nano for each in pools.values()] == [66, 34, 0]
    idle = {name: OwnPool(name) for name in "ab"}
    share_costs(idle, [line])
    assert [each.cost_nano for each in idle.values()] == [50, 50]


@pytest.mark.parametrize(("zone", "days"), [("Europe/Berlin", 31), ("Asia/Kathmandu", 31), ("UTC", 31)])
def test_days_are_those_of_the_zone(zone: str, days: int) -> None:
    """Also of the month in which clocks change, and of an odd offset."""
    calendar = Calendar(zone_named(zone))
    window = calendar.window(2026 * 12 + 9)  # October
    found = days_of(window, calendar)
    assert (len(found), found[0]) == (days, window.start_ms)
    lengths = {end - start for start, end in zip(found, [*found[1:], window.end_ms], strict=True)}
    assert lengths == ({24 * HOUR_MS, 25 * HOUR_MS} if zone == "Europe/Berlin" else {24 * HOUR_MS})
    assert days_of(PeriodWindow(0, 0), calendar) == [0]


async def test_another_tenants_pools_are_not_shown(stores: Stores) -> None:
    """Nor to who sees no money."""
    mine = (await a_tenant(stores.db, "mine")).tenant_id
    stranger = member_of("t-else", Role.BILLING)
    assert (await refusal_of(spend_pools.show_own_pools, stores, stranger, AskOwnPools(tenant=mine))).unknown
    viewer = member_of(mine, Role.VIEWER)
    assert (
        await refusal_of(spend_pools.show_own_pools, stores, viewer, AskOwnPools(tenant=mine))
    ).code == "forbidden"
