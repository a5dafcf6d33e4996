"""When an hour of a pool is due, when a commitment ends, and whose a pool is: at the limits themselves."""

import pytest

from billing.dedicated_pools import commitments
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus, end_gpu_commitment, set_gpu_cost
from billing.dedicated_pools.hours import HOUR_MS, GpuHour
from billing.dedicated_pools.posting import hours_due, post_hours
from billing.dedicated_pools.reports import PoolLine, PoolUse, _add_hour, _add_line, _add_tokens
from billing.dedicated_pools.store import store
from billing.money import NANO
from billing.tables.dedicated_pools import GpuCost
from core.errors import Refused
from core.sql.database import Database
from core.sql.joined import joined_transaction
from tests.billing.dedicated_pools.dedicated import (
    HOUR,
    NOW_HOUR,
    a_tenant,
    after,
    an_interval,
    dedicate,
)

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("meter", "price_nano", "found"),
    [("gpu_second", 1, (0, 5, 0)), ("gpu_second", 0, (5, 0, 0)), ("reserved_gpu_second", 1, (0, 0, 5))],
)
def test_what_a_line_of_gpus_is(meter: str, price_nano: int, found: tuple[int, int, int]) -> None:
    """Used and covered, used beyond, or paid for whether used or not."""
    use = PoolUse("a", "t", "h200", gpu_nano=1)
    _add_line(use, PoolLine("t", "a", "h200", meter, price_nano, 5, 7))
    assert ((use.committed, use.overage, use.reserved), use.gpu_nano) == (found, 8)


@pytest.mark.parametrize(("rows", "own"), [(("", "t"), "t"), (("", "u"), ""), (("u", "v"), "u"), ((), None)])
def test_whose_row_tokens_are_in(rows: tuple[str, ...], own: str | None) -> None:
    """The owner's, else nobody's, else the first of the pool; never another pool's."""
    found = {(pool, who, "h"): PoolUse(pool, who, "h") for pool in ("b", "a") for who in rows}
    _add_tokens(found, "a", "t", 9)
    _add_tokens(found, "a", "t", 1)
    assert {key[:2]: each.tokens_nano for key, each in found.items() if each.tokens_nano} == (
        {} if own is None else {("a", own): 10}
    )


def test_what_a_pool_earned_an_hour_less_its_cost() -> None:
    """Not known where anything of it is not, nor where it was never ready."""
    use = PoolUse("a", "t", "h200", gpu_nano=5, tokens_nano=4)
    assert use.margin_nano_per_hour is None
    costs = [GpuCost(gpu_type="h200", region="", valid_from_ms=HOUR_MS - 1, hour_nano=3_600, created_ms=0)]
    _add_hour(use, GpuHour("a", "t", "", "h200", 2_000, 1_000), 0, costs, "")
    _add_hour(use, GpuHour("a", "t", "", "h200", 2_000, 0), 0, costs, "")
    assert (use.ready, use.busy, use.idle, use.cost_nano, use.margin_nano_per_hour) == (4, 1, 3, 4, 5 * 900)
    for costs_then in ([], costs):
        _add_hour(use, GpuHour("a", "t", "", "h200", 1_000, 0), 0, costs_then, "")
        assert (use.cost_nano, use.margin_nano_per_hour) == (None, None)


async def test_an_hour_is_due_when_it_is_over_and_not_in_the_books(sqlite: Database) -> None:
    """Of each commitment by itself, and of ready time again only where that became longer."""
    tenant = (await a_tenant(sqlite)).tenant_id
    await dedicate(sqlite, "a", tenant)
    await commit_gpus(sqlite, tenant, GpuTerms("h200", 1, HOUR, HOUR + 2 * HOUR_MS, 1))
    times = (after(1) - 1, after(1), after(2) - 1, after(2), after(9))
    both = [HOUR, HOUR + HOUR_MS]
    assert [await hours_due(sqlite, at) for at in times] == [[], [HOUR], [HOUR], both, both]
    await store(sqlite, [an_interval(0, 0, 100)])
    assert await post_hours(sqlite, after(1)) == 1
    await store(sqlite, [an_interval(0, 0, 100), an_interval(0, 0, 99)])
    assert await hours_due(sqlite, after(9)) == both[1:]
    await commit_gpus(sqlite, tenant, GpuTerms("h200", 1, HOUR, HOUR + HOUR_MS, 1))
    assert await hours_due(sqlite, after(1)) == [HOUR]
    assert [await post_hours(sqlite, after(9)) for _ in range(2)] == [2, 0]
    await store(sqlite, [an_interval(0, 0, 101)])
    assert await hours_due(sqlite, after(9)) == [HOUR]


async def test_a_commitment_ends_with_a_full_hour_after_its_notice(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends by then is not ended; a mistake is one until it begins."""
    tenant = (await a_tenant(sqlite)).tenant_id
    ends_ms = HOUR + 3 * DAY_MS
    row = await commit_gpus(
        sqlite, tenant, GpuTerms("h200", 1, HOUR, ends_ms, 2, payment="upfront", notice_days=1)
    )

    async def ends(at_ms: int, mistake: bool = False) -> tuple[int | None, int]:
        monkeypatch.setattr(commitments, "now_ms", lambda: at_ms)
        async with joined_transaction(sqlite, lambda _: None, dry=True) as db:
            of, back = await end_gpu_commitment(db, tenant, row.id, "r", mistake)
        return of.ends_ms, back

    assert await ends(HOUR - 1, mistake=True) == (HOUR, 3 * 24 * 2)
    with pytest.raises(Refused, match="it has begun"):
        await ends(HOUR, mistake=True)
    assert await ends(HOUR) == (HOUR + DAY_MS, 2 * 24 * 2)
    assert await ends(HOUR + 1) == (HOUR + DAY_MS + HOUR_MS, 47 * 2)
    assert await ends(HOUR - 2 * DAY_MS) == (HOUR, 3 * 24 * 2)
    assert await ends(ends_ms - DAY_MS - HOUR_MS) == (ends_ms - HOUR_MS, 2)
    with pytest.raises(Refused, match="ends by then"):
        await ends(ends_ms - DAY_MS - HOUR_MS + 1)


async def test_what_a_gpu_costs_us_is_within_its_bounds(sqlite: Database) -> None:
    """From now on where no time is said."""
    row = await set_gpu_cost(sqlite, "*", "", 32_400 * NANO, None)
    assert NOW_HOUR <= row.valid_from_ms == row.created_ms
    assert (await set_gpu_cost(sqlite, "h200", "", 0, 0)).valid_from_ms == 0
    for hour_nano in (-1, 32_400 * NANO + 1):
        with pytest.raises(Refused, match="from 0 to 32,400"):
            await set_gpu_cost(sqlite, "x", "", hour_nano, None)
    with pytest.raises(Refused, match="name a type of GPU"):
        await set_gpu_cost(sqlite, "", "", 1, None)
