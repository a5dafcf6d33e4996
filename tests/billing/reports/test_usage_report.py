"""What a tenant used: exact in any window, by whatever it is grouped, and the same from rebuilt rollups."""

import random
from collections import defaultdict
from zoneinfo import ZoneInfo

import pytest

from billing.booking import rollups
from billing.ledger.transactions import HOUR_MS
from billing.periods import PeriodWindow
from billing.posting.biller import post
from billing.reports.usage_report import GroupBy, RankedUsage, ranked_usage, usage_in
from billing.tables.ledger import RollupHour
from billing.usage import UsageEvent, encode
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import an_hour_of, proven, read

UTC_ZONE = ZoneInfo("UTC")
OF_EVENT = {
    GroupBy.PROJECT: lambda event: event.owner.project,
    GroupBy.USER: lambda event: event.owner.user,
    GroupBy.KEY: lambda event: event.owner.key,
    GroupBy.MODEL: lambda event: event.model,
    GroupBy.POOL: lambda event: event.pool,
    GroupBy.COST_CENTER: lambda event: "",
    GroupBy.NOTHING: lambda event: "",
}


def expected(events: list[UsageEvent], window: PeriodWindow, by: GroupBy) -> dict[str, tuple[int, ...]]:
    """The sums, added up one by one."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 7)
    for event in events:
        if window.start_ms <= event.ended_ms < window.end_ms:
            tokens = (event.input_uncached, event.input_cached, event.output_text, event.output_reasoning)
            of = sums[OF_EVENT[by](event)]
            for place, value in enumerate((1, event.reason == "error", *tokens, event.cost_nano)):
                of[place] += value
    return {group: tuple(values) for group, values in sums.items()}


async def reported(database: Database, window: PeriodWindow, by: GroupBy) -> dict[str, tuple[int, ...]]:
    """The same from the database."""
    found = await usage_in(database, "t1", window, by, UTC_ZONE)
    return {
        usage.group: (
            usage.requests,
            usage.errors,
            usage.input_uncached,
            usage.input_cached,
            usage.output_text,
            usage.output_reasoning,
            usage.amount_nano,
        )
        for usage in found
    }


@pytest.mark.parametrize("by", OF_EVENT)
async def test_sums_are_exact_in_any_window(database: Database, by: GroupBy) -> None:
    """Whole hours, parts of hours, less than an hour, nothing. So are those of the first groups, and of all
    of them, where the database finds them."""
    events = an_hour_of(150, seed=7)
    await post(database, "default", [encode(event) for event in events])
    await post(database, "default", [encode(an_event("foreign", "t2"))])
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    windows = [
        PeriodWindow(0, 5 * HOUR_MS),
        PeriodWindow(HOUR_MS, 2 * HOUR_MS),
        PeriodWindow(10, 20),
        PeriodWindow(HOUR_MS - 5, HOUR_MS + 5),
    ]
    for _ in range(8):
        start, end = sorted(chosen.choices(range(5 * HOUR_MS), k=2))
        windows.append(PeriodWindow(start, end + 1))
    for window in windows:
        assert await reported(database, window, by) == expected(events, window, by), window
        every = await usage_in(database, "t1", window, by, UTC_ZONE)
        for most in (1, 2, 1_000):
            found = await ranked_usage(database, "t1", window, by, most)
            assert found == RankedUsage.of(every, most), (window, most)


async def test_days_are_those_of_the_zone(database: Database) -> None:
    """In Kathmandu (+05:45) the day ends at 18:15 UTC."""
    zone = ZoneInfo("Asia/Kathmandu")
    midnight = 20_000 * 24 * HOUR_MS - (5 * 60 + 45) * 60_000
    events = [an_event(f"r{offset}", ended_ms=midnight + offset) for offset in (-2, -1, 0, 1, 2)]
    await post(database, "default", [encode(event) for event in events])
    days = await usage_in(
        database, "t1", PeriodWindow(midnight - 24 * HOUR_MS, midnight + 24 * HOUR_MS), GroupBy.DAY, zone
    )
    assert [(day.group, day.requests) for day in days] == [
        (str(midnight - 24 * HOUR_MS), 2),
        (str(midnight), 3),
    ]


async def test_rebuilt_rollups_are_the_same(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-26: In parts of a few lines, with usage posted before, within and after."""
    monkeypatch.setattr(rollups, "LINES_AT_ONCE", 7)
    events = [encode(event) for event in an_hour_of(60, seed=8)]
    await post(database, "default", events[:20])
    before = [row.model_dump() for row in await read(database, RollupHour)]
    posted: list[int] = []

    assert await rollups.rebuild(database, "t1", lambda done, whole: posted.append(done)) > 20
    assert len(posted) > 2
    assert [row.model_dump() for row in await read(database, RollupHour)] == before
    await interrupted(database)
    await post(database, "default", events[20:])
    assert await rollups.advance(database, "t1") > 60
    await proven(database)
    rebuilt = [row.model_dump() for row in await read(database, RollupHour)]
    await rollups.rebuild(database, "t1")
    assert [row.model_dump() for row in await read(database, RollupHour)] == rebuilt
    assert sum(row["requests"] for row in rebuilt) == 60


async def interrupted(database: Database) -> None:
    """A rebuild that dies after its second part."""

    def die(done: int, whole: int) -> None:
        if done > rollups.LINES_AT_ONCE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await rollups.rebuild(database, "t1", die)
