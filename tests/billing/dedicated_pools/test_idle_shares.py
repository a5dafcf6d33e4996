"""Idle cost of shared pools by shares of tokens: the parts add up to it."""

import random

from billing.dedicated_pools.commitments import set_gpu_cost
from billing.dedicated_pools.idle_shares import idle_costs, idle_shares, shared_out
from billing.dedicated_pools.reports import PoolUse
from billing.dedicated_pools.store import store
from billing.periods import HOUR_MS, PeriodWindow
from billing.posting.biller import post
from billing.usage import encode
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import DOLLAR, HOUR, a_tenant, an_interval, dedicate
from tests.billing.events import an_event


def test_parts_add_up_and_are_as_their_weights():
    """To the nano, whatever the weights; each is off by less than one."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    for _ in range(500):
        weights = {f"t{n}": chosen.choice((0, 1, 7, 10**12)) for n in range(chosen.randrange(1, 9))}
        nano = chosen.randrange(10**14)
        parts = shared_out(nano, weights)
        assert sum(parts.values()) == nano
        whole = sum(weights.values())
        if whole:
            assert all(abs(parts[name] * whole - nano * weight) < whole for name, weight in weights.items())


def test_the_cost_of_idle_time_is_that_part_of_the_ready_time():
    """Types of GPU are added up; of one whose cost nobody said, nothing is known."""
    half = PoolUse("eu", "", "h100", ready=100, busy=50, cost_nano=1_000)
    quarter = PoolUse("eu", "", "l4", ready=40, busy=30, cost_nano=400)
    assert idle_costs([half, quarter]) == {"eu": 600}
    assert idle_costs([half, PoolUse("eu", "", "x", ready=1, cost_nano=None)]) == {"eu": None}


async def test_idle_time_of_a_shared_pool_goes_by_tokens_and_that_of_a_dedicated_one_is_left_out(
    database: Database,
) -> None:
    """The parts add up to what the idle half cost; of a pool that nobody used, nobody has it."""
    tenant = await a_tenant(database)
    await dedicate(database, "b", tenant.tenant_id)
    await set_gpu_cost(database, "h200", "", DOLLAR, 0)
    window = PeriodWindow(HOUR, HOUR + HOUR_MS)
    assert await idle_shares(database, window) == []
    intervals = [
        an_interval(0, 0, 3_600, "v", "b"),
        an_interval(0, 0, 3_600),
        an_interval(0, 0, 1_800, "u", "c"),
    ]
    await store(database, intervals)
    events = [
        an_event(f"r{number}", name, pool="a", ended_ms=HOUR + 5, input_uncached=8 * number)
        for number, name in ((1, "t1"), (3, "t2"))
    ]
    await post(database, "a", [encode(event) for event in events])
    first, second, unused = await idle_shares(database, window)
    assert [(each.pool, each.tenant_id, each.tokens) for each in (first, second, unused)] == [
        ("a", "t2", 35),
        ("a", "t1", 19),
        ("c", "", 0),
    ]
    assert (first.idle_nano or 0) + (second.idle_nano or 0) == DOLLAR // 2
    assert first.idle_nano == DOLLAR * 35 // 108
    assert unused.idle_nano == DOLLAR // 4
