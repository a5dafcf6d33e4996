"""The database adds a tenant's GPU time up as the pure code does."""

import random

import pytest

from billing.dedicated_pools.hours import HOUR_MS, GpuHour, ReadyInterval, hours_of
from billing.dedicated_pools.owned_hours import owned_hours
from billing.dedicated_pools.owners import owners_of
from billing.dedicated_pools.store import store
from billing.periods import PeriodWindow
from billing.tables.dedicated_pools import PoolOwner
from core.sql.database import Database

START = 500_000 * HOUR_MS
HOURS = 3
POOLS = ("a", "B", "c")


def some_intervals(chance: random.Random) -> list[ReadyInterval]:
    """Of few workers and fewer devices, so that many overlap or begin at the same time."""
    found: dict[tuple[str, str, int], ReadyInterval] = {}
    for _ in range(60):
        hour = START + chance.randrange(HOURS) * HOUR_MS
        begin = hour + chance.randrange(0, HOUR_MS, HOUR_MS // 12)
        end = min(hour + HOUR_MS, begin + chance.choice((0, 1, 77_777, HOUR_MS // 3, HOUR_MS)))
        each = ReadyInterval(
            pool=chance.choice(POOLS),
            worker=f"w{chance.randrange(4)}",
            from_ms=begin,
            to_ms=end,
            busy_ms=chance.randint(0, end - begin),
            gpus=chance.choice((1, 8)),
            state="ready",
            device=f"GPU-{chance.randrange(5)}",
            gpu_type=chance.choice(("h100", "h200")),
        )
        found[each.pool, each.worker, each.from_ms] = each
    return list(found.values())


@pytest.mark.parametrize("seed", range(4))
async def test_hours_are_those_of_the_pure_code(database: Database, seed: int) -> None:
    """Also where devices are in several pools, and pools changed hands within an hour."""
    chance = random.Random(seed)
    intervals = some_intervals(chance)
    await store(database, intervals)
    times = [START - HOUR_MS, *sorted(chance.sample(range(START, START + HOURS * HOUR_MS), 3))]
    async with database.transaction() as session:
        for pool in POOLS[:2]:
            for at, tenant in zip(times, chance.sample(("t1", "t2", "", "t1"), 4), strict=True):
                session.add(
                    PoolOwner(pool=pool, from_ms=at, tenant_id=tenant, project_id=f"p{at % 2}", created_ms=at)
                )
    window = PeriodWindow(START, START + 2 * HOUR_MS)
    async with database.session() as session:
        owners = await owners_of(session)
        found = await owned_hours(session, "t1", POOLS[:2], window)
    expected: list[tuple[int, GpuHour]] = []
    for hour in range(window.start_ms, window.end_ms, HOUR_MS):
        own = [each for each in intervals if each.hour_ms == hour]
        of_tenant = [each for each in hours_of(own, owners) if each.tenant_id == "t1"]
        expected += [(hour, each) for each in of_tenant]
    assert found == expected, f"seed {seed}"
    assert any(each.ready_ms for _, each in found)
