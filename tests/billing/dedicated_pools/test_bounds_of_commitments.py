"""How much, how many and how far: bounds of commitments, at the bound itself."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.closing.period_commitments import (
    NewCommitment,
    _check,  # pyright: ignore[reportPrivateUsage]
    _check_time,  # pyright: ignore[reportPrivateUsage]
    commit,
    until_ms,
)
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus
from billing.dedicated_pools.commitments import _check as check_gpus  # pyright: ignore[reportPrivateUsage]
from billing.money import NANO
from billing.periods import HOUR_MS, Calendar, Period, PeriodWindow, window_at
from billing.prices.rating import Meter
from billing.prices.true_up import CommittedInPeriod
from billing.tables.dedicated_pools import Commitment
from billing.tables.prices import PeriodCommitment
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database

MOST_NANO = 9_000_000 * NANO
DAY_MS = 24 * HOUR_MS
NOW = 480_000 * HOUR_MS + 7
HOUR = NOW - 7
GPUS: dict[str, Any] = {
    "gpu_type": "*",
    "gpus": 1,
    "start_ms": HOUR,
    "end_ms": HOUR + HOUR_MS,
    "rate_nano": 0,
}


@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        (CommittedInPeriod(1), CommittedInPeriod(0)),
        (CommittedInPeriod(MOST_NANO), CommittedInPeriod(MOST_NANO + 1)),
        (CommittedInPeriod(1, "*", Meter.OUTPUT, 1), CommittedInPeriod(1, "*", Meter.OUTPUT, 0)),
        (
            CommittedInPeriod(1, "*", Meter.INPUT, (1 << 53) - 1),
            CommittedInPeriod(1, "*", Meter.INPUT, 1 << 53),
        ),
        (CommittedInPeriod(1, "m", Meter.REQUEST, 1, 0), CommittedInPeriod(1, "m", Meter.REQUEST, 1, -1)),
        (
            CommittedInPeriod(1, "m", Meter.REQUEST, 1, MOST_NANO),
            CommittedInPeriod(1, "m", Meter.REQUEST, 1, MOST_NANO + 1),
        ),
        (CommittedInPeriod(1, "m", Meter.CACHED_INPUT, 1), CommittedInPeriod(1, "", Meter.CACHED_INPUT, 1)),
        (CommittedInPeriod(1), CommittedInPeriod(1, "m")),
        (CommittedInPeriod(1), CommittedInPeriod(1, units=1)),
        (CommittedInPeriod(1), CommittedInPeriod(1, overage_nano=0)),
        (CommittedInPeriod(1), CommittedInPeriod(1, "m", Meter.REASONING, 1)),
    ],
)
def test_what_is_committed_to_is_within_its_bounds(
    taken: CommittedInPeriod, refused: CommittedInPeriod
) -> None:
    """Amounts, units, and what is beyond them; units are of a model and a meter."""
    _check(taken)
    with pytest.raises(Refused):
        _check(refused)


def test_a_commitment_begins_with_the_running_month_and_within_thirteen() -> None:
    """One that is further away is meant where that is said; so is a notice of up to two years."""
    calendar = Calendar(ZoneInfo("UTC"))
    running = calendar.window(calendar.month_at(NOW))

    def begins(at_ms: int, **changes: Any) -> None:
        _check_time(
            calendar, NewCommitment(CommittedInPeriod(1), PeriodWindow(at_ms, at_ms + 1), **changes), NOW
        )

    begins(running.start_ms)
    begins(NOW + 397 * DAY_MS)
    begins(NOW + 397 * DAY_MS + 1, far_ahead=True)
    for notice in (0, 24):
        begins(running.start_ms, notice_months=notice)
    for at_ms, changes in (
        (running.start_ms - 1, {}),
        (NOW + 397 * DAY_MS + 1, {}),
        (running.start_ms, {"notice_months": -1}),
        (running.start_ms, {"notice_months": 25}),
    ):
        with pytest.raises(Refused):
            begins(at_ms, **changes)


@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        ({"gpus": 1}, {"gpus": 0}),
        ({"gpus": 1_024}, {"gpus": 1_025}),
        ({"rate_nano": 32_400 * NANO}, {"rate_nano": 32_400 * NANO + 1}),
        ({"overage_nano": 0}, {"overage_nano": -1}),
        ({"overage_nano": 32_400 * NANO}, {"overage_nano": 32_400 * NANO + 1}),
        ({"payment": "upfront"}, {"payment": ""}),
        ({"start_ms": HOUR, "end_ms": HOUR + HOUR_MS}, {"start_ms": HOUR - HOUR_MS}),
        ({"end_ms": HOUR + 24 * 366 * 5 * HOUR_MS}, {"end_ms": HOUR + (24 * 366 * 5 + 1) * HOUR_MS}),
        ({}, {"end_ms": HOUR}),
        ({}, {"end_ms": HOUR + HOUR_MS + 1}),
        ({}, {"start_ms": HOUR + 1}),
        ({"notice_days": 0}, {"notice_days": -1}),
        ({"notice_days": 366}, {"notice_days": 367}),
        ({}, {"gpu_type": ""}),
    ],
)
def test_gpus_are_committed_to_within_their_bounds(taken: dict[str, Any], refused: dict[str, Any]) -> None:
    """How many, for what, from this hour on, for at most five years."""
    check_gpus(GpuTerms(**GPUS | taken), NOW)
    with pytest.raises(Refused):
        check_gpus(GpuTerms(**GPUS | refused), NOW)


@pytest.mark.parametrize(("ends_ms", "until"), [(None, 50), (40, 40), (50, 50), (60, 50), (0, 0)])
def test_a_commitment_holds_until_the_earlier_end(ends_ms: int | None, until: int) -> None:
    """As agreed, or as it was ended."""
    row = PeriodCommitment(tenant_id="t", id="c", start_ms=0, end_ms=50, committed_nano=1, created_ms=0)
    row.ends_ms = ends_ms
    assert until_ms(row) == until


async def test_a_tenant_has_a_hundred_commitments_of_a_kind(sqlite: Database) -> None:
    """That are not over: one that ended this very moment makes room."""
    tenant = await create_tenant(sqlite, "acme")
    now = now_ms()
    month = window_at(Period.MONTH, ZoneInfo("UTC"), now)
    of: dict[str, Any] = {"tenant_id": tenant.tenant_id, "start_ms": 0, "created_ms": 0}
    gpus: dict[str, Any] = {"gpu_type": "*", "gpus": 1, "rate_nano": 0, "payment": "monthly"}
    async with sqlite.transaction() as session:
        for at in range(100):
            end_ms = month.end_ms if at else now
            units: dict[str, Any] = {"model": f"m{at}", "meter": "output", "units": 1, "committed_nano": 1}
            session.add(PeriodCommitment(id=f"c{at}", end_ms=end_ms, **of, **units))
            session.add(Commitment(id=f"c{at}", end_ms=end_ms, **of, **gpus))
    new = NewCommitment(CommittedInPeriod(1), month)
    terms = GpuTerms("*", 1, month.end_ms, month.end_ms + HOUR_MS, 0)
    await commit(sqlite, tenant, new, now=now)
    await commit_gpus(sqlite, tenant.tenant_id, terms)
    with pytest.raises(Refused, match="at most 100 commitments"):
        await commit(sqlite, tenant, new, now=now)
    with pytest.raises(Refused, match="at most 100 commitments to GPUs"):
        await commit_gpus(sqlite, tenant.tenant_id, terms)
