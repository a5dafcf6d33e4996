"""Pages of usage: what the lines say, whatever is asked, and as of one line while usage arrives."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.exc import DBAPIError

from billing.booking import rollups
from billing.booking.adjustments import Correction, correct
from billing.periods import HOUR_MS, LAST_MS, Calendar, ClosedMonth, PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.usage_pages import usage_page
from billing.reports.usage_questions import (
    OF_LINES,
    Facet,
    PagePosition,
    UsageBucket,
    UsageQuestion,
    bucket_window,
    check_question,
    split_hours,
)
from billing.reports.usage_report import SUMS
from billing.tables.ledger import LedgerEntry, UsageLine
from billing.tables.tenants import UsageRow
from billing.usage import UsageEvent, UsageOwner, encode
from core.sql.database import Database, is_out_of_time
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read

Groups = dict[tuple[int, ...] | tuple[object, ...], tuple[int, ...]]
MEASURED = {
    "input": "input_uncached",
    "cached_input": "input_cached",
    "output": "output_text",
    "reasoning": "output_reasoning",
}
# Clocks go back here: an hour, half an hour, never; and days begin on no whole hour of UTC's.
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana")
UTC_DAYS = Calendar(ZoneInfo("UTC"))
BEGIN = int(datetime(2026, 10, 24, 12, tzinfo=UTC).timestamp() * 1000)
SPAN = 12 * 24 * HOUR_MS


def some_events(count: int, chosen: random.Random, prefix: str = "r") -> list[UsageEvent]:
    """Of several projects, users, keys, models, pools and ends, over the days in which clocks are turned."""
    return [
        an_event(
            f"{prefix}{number:04}",
            model=chosen.choice(("small", "large")),
            pool=chosen.choice(("default", "eu")),
            owner=UsageOwner(
                project=chosen.choice(("p1", "p2")),
                key=chosen.choice(("k1", "k2", "k3")),
                user=chosen.choice(("", "u1", "ü")),
            ),
            ended_ms=BEGIN + chosen.randrange(SPAN),
            reason=chosen.choice(("stop", "length", "error")),
            input_uncached=chosen.choice((0, 5, 1_000_003)),
            output_text=chosen.choice((0, 1, 333)),
        )
        for number in range(count)
    ]


async def posted(database: Database, events: list[UsageEvent]) -> None:
    """Billed."""
    for pool in ("default", "eu"):
        await post(database, pool, [encode(event) for event in events if event.pool == pool])


async def expected(database: Database, question: UsageQuestion, as_of: int) -> Groups:
    """The same from each line by itself."""
    rows = {row.request_id: row for row in await read(database, UsageRow)}
    found: dict[tuple[object, ...], list[int]] = {}
    for line in await read(database, UsageLine):
        row = rows[line.request_id]
        facts = {
            Facet.PROJECT: row.project_id,
            Facet.COST_CENTER: line.cost_center_id,
            Facet.USER: row.user_id,
            Facet.KEY: row.key_id,
            Facet.MODEL: row.model,
            Facet.POOL: row.pool,
            Facet.REASON: row.reason,
            Facet.METER: line.meter,
            Facet.KIND: line.kind,
        }
        start, end = question.window
        wanted = all(facts[facet] in values for facet, values in question.where.items())
        wanted &= question.project in (None, row.project_id) and line.seq <= as_of
        if not wanted or not start <= line.ended_ms < end:
            continue
        bucket = 0
        if question.bucket is UsageBucket.HOUR:
            bucket = line.ended_ms - line.ended_ms % HOUR_MS
        elif question.bucket is not None:
            bucket = _bucket(question, line.ended_ms)
        sums = found.setdefault((bucket, *(facts[facet] for facet in question.by)), [0] * len(SUMS))
        sums[SUMS.index("requests")] += line.number == 0
        sums[SUMS.index("errors")] += line.number == 0 and row.reason == "error"
        sums[SUMS.index("amount_nano")] += line.amount_nano
        if line.meter in MEASURED:
            sums[SUMS.index(MEASURED[line.meter])] += line.quantity
    seen = slice(SUMS.index("amount_nano") if question.only_amounts else 0, None)
    return {group: tuple(sums) for group, sums in found.items() if any(sums[seen])}


def _bucket(question: UsageQuestion, at_ms: int) -> int:
    """Where the day or month of an instant begins."""
    if question.bucket is UsageBucket.DAY:
        return question.calendar.day_at(at_ms).start_ms
    return question.calendar.window(question.calendar.month_at(at_ms)).start_ms


async def paged(
    database: Database,
    question: UsageQuestion,
    rows_max: int,
    between: Callable[[], Awaitable[None]] | None = None,
) -> tuple[Groups, int]:
    """All pages one after the other, and the line that they are as of."""
    found: Groups = {}
    after: PagePosition | None = None
    as_of: int | None = None
    last: PagePosition | None = None
    while True:
        page = await usage_page(database, question, rows_max, 60.0, after, as_of)
        assert len(page.rows) <= rows_max
        assert as_of in (None, page.as_of)
        for row in page.rows:
            usage = row.sums
            bucket = _begin(question, row.window)
            group = (bucket, *row.group)
            assert group not in found, "told twice"
            found[group] = tuple(getattr(usage, name) for name in SUMS)
            last = PagePosition(bucket, row.group)
        as_of, after = page.as_of, page.end
        if after is None:
            return found, as_of
        assert after == last
        if between is not None:
            await between()


def _begin(question: UsageQuestion, window: PeriodWindow) -> int:
    """Of the whole bucket."""
    match question.bucket:
        case None:
            assert window == question.window
            return 0
        case UsageBucket.HOUR:
            begin = window.start_ms - window.start_ms % HOUR_MS
        case _:
            begin = _bucket(question, window.start_ms)
    assert window == bucket_window(question, begin)
    return begin


def a_question(chosen: random.Random) -> UsageQuestion:
    """Any."""
    start, end = sorted(chosen.sample(range(BEGIN - HOUR_MS, BEGIN + SPAN + HOUR_MS), 2))
    if chosen.random() < 0.3:
        start, end = start - start % HOUR_MS, end - end % HOUR_MS + HOUR_MS
    by = tuple(chosen.sample(list(Facet), chosen.randrange(3)))
    choices = {Facet.MODEL: ("small",), Facet.USER: ("ü", "nobody"), Facet.REASON: ("error",)}
    where = {facet: values for facet, values in choices.items() if chosen.random() < 0.2}
    calendar = Calendar(ZoneInfo(chosen.choice(ZONES)))
    if chosen.random() < 0.3:  # October was closed elsewhere
        october = calendar.month_at(BEGIN)
        before = Calendar(ZoneInfo(chosen.choice(ZONES)))
        closed = {october: ClosedMonth(before.window(october), before.zone)}
        calendar = Calendar(calendar.zone, closed)
    return UsageQuestion(
        "t1",
        PeriodWindow(start, end),
        calendar,
        by,
        chosen.choice([None, *UsageBucket]),
        where,
        chosen.choice([None, None, "p1"]),
        chosen.choice([True, False]),
    )


async def test_pages_are_what_the_lines_say(database: Database) -> None:
    """By any two facts, in any buckets of any zone, of anybody, in pages of any size."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    await posted(database, some_events(90, chosen))
    await post(database, "default", [encode(an_event("foreign", "t2", ended_ms=BEGIN))])
    for request in ("r0001", "r0002", "r0003"):
        wanted = {Meter.INPUT: chosen.randrange(9), Meter.OUTPUT: 0}
        await correct(database, "t1", Correction(request, wanted, "c"))
    for _ in range(14):
        question = a_question(chosen)
        check_question(question)
        found, as_of = await paged(database, question, chosen.choice((9, 50, 1000)))
        assert found == await expected(database, question, as_of), question


async def test_no_group_is_missed_or_told_twice_while_usage_arrives(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Usage, corrections and a rebuild between the pages: all of them are as of the first one's line."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    await posted(database, some_events(60, chosen))
    whole = PeriodWindow(BEGIN, BEGIN + SPAN)
    berlin, kathmandu = Calendar(ZoneInfo("Europe/Berlin")), Calendar(ZoneInfo("Asia/Kathmandu"))
    questions = [
        UsageQuestion("t1", whole, berlin, (Facet.USER, Facet.KEY), None),
        UsageQuestion("t1", whole, kathmandu, (Facet.MODEL,), UsageBucket.DAY),
        UsageQuestion("t1", whole, berlin, (Facet.REASON, Facet.METER), None),
    ]
    monkeypatch.setattr(rollups, "LINES_AT_ONCE", 40)
    rounds = 0

    async def between() -> None:
        nonlocal rounds
        rounds += 1
        await posted(database, some_events(4, chosen, f"late{rounds}-"))
        await correct(
            database, "t1", Correction(f"r00{rounds % 60:02}", {Meter.OUTPUT: rounds}, f"c{rounds}")
        )
        if rounds % 3 == 0:
            with pytest.raises(KeyboardInterrupt):
                await rollups.rebuild(database, "t1", _die)

    for question in questions:
        found, as_of = await paged(database, question, 3, between)
        assert found == await expected(database, question, as_of), question
        assert as_of < len(await read(database, UsageLine)), "nothing arrived"
    assert rounds > 6


def _die(done: int, whole: int) -> None:
    """With the watermark in the middle."""
    if done >= 40:
        raise KeyboardInterrupt


async def test_pages_add_up_to_the_ledger(database: Database) -> None:
    """To the nano: what was credited to revenue. What was free is asked for as well, or left out."""
    await posted(database, some_events(80, random.Random(5)))
    question = UsageQuestion("t1", PeriodWindow(BEGIN, BEGIN + SPAN), UTC_DAYS, (Facet.METER, Facet.PROJECT))
    found, _ = await paged(database, question, 2)
    entries = [row for row in await read(database, LedgerEntry) if row.account.startswith("revenue:")]
    assert sum(sums[SUMS.index("amount_nano")] for sums in found.values()) == -sum(
        entry.amount_nano for entry in entries
    )
    nothing: dict[str, Any] = {"input_uncached": 0, "input_cached": 0, "output_text": 0}
    await posted(database, [an_event("free", model="free", ended_ms=BEGIN, **nothing)])
    for only_amounts, models in ((False, {"small", "large", "free"}), (True, {"small", "large"})):
        by_model = replace(question, by=(Facet.MODEL,), only_amounts=only_amounts)
        assert {group[1] for group in (await paged(database, by_model, 2))[0]} == models


async def test_what_takes_too_long_is_ended_by_the_database(database: Database) -> None:
    """And the connection serves the next who asks."""
    slow = (
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 400000000) "
        "SELECT count(*) FROM numbers"
    )
    with pytest.raises(DBAPIError) as ended:
        async with database.short_snapshot(0.05) as session:
            await (await session.connection()).exec_driver_sql(slow)
    assert is_out_of_time(ended.value)
    question = UsageQuestion("t1", PeriodWindow(BEGIN, BEGIN + SPAN), UTC_DAYS)
    assert (await usage_page(database, question, 10, 10.0)).rows == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"window": PeriodWindow(5, 5)}, "before"),
        ({"window": PeriodWindow(9, 5)}, "before"),
        ({"window": PeriodWindow(-1, 5)}, "before"),
        ({"window": PeriodWindow(0, 401 * 24 * HOUR_MS)}, "^at most 400 days at once: ask"),
        (
            {"window": PeriodWindow(0, 33 * 24 * HOUR_MS), "bucket": UsageBucket.HOUR},
            "^at most 32 days at once by the hour, or by or of kind, meter, reason: ask",
        ),
        ({"window": PeriodWindow(0, 33 * 24 * HOUR_MS), "by": (Facet.REASON,)}, "32 days"),
        ({"window": PeriodWindow(0, 33 * 24 * HOUR_MS), "where": {Facet.KIND: ("usage",)}}, "32 days"),
    ],
)
def test_what_is_too_much_to_ask_is_said(changes: dict[str, object], says: str) -> None:
    """In words for who asked."""
    facts: dict[str, object] = {"window": PeriodWindow(0, HOUR_MS), **changes}
    with pytest.raises(ValueError, match=says):
        check_question(UsageQuestion("t1", calendar=UTC_DAYS, **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("days", "changes"),
    [
        (400, {}),
        (400, {"bucket": UsageBucket.DAY}),
        (32, {"bucket": UsageBucket.HOUR}),
        (32, {"by": (Facet.METER,)}),
        (400, {"by": (Facet.POOL,), "where": {Facet.USER: ("u",)}}),
    ],
)
def test_as_much_may_be_asked_and_a_millisecond_more_may_not(days: int, changes: dict[str, Any]) -> None:
    """From the first time that there is, or up to the last."""
    span_ms = days * 24 * HOUR_MS
    for start in (0, LAST_MS - span_ms):
        check_question(UsageQuestion("t1", PeriodWindow(start, start + span_ms), UTC_DAYS, **changes))
    for window in (PeriodWindow(0, span_ms + 1), PeriodWindow(LAST_MS - 1, LAST_MS + 1)):
        with pytest.raises(ValueError, match=r"."):
            check_question(UsageQuestion("t1", window, UTC_DAYS, **changes))


def test_a_bucket_is_as_long_as_it_lies_in_the_time() -> None:
    """The first and the last may be cut; without buckets there is one."""
    whole = PeriodWindow(5, 2 * HOUR_MS + 7)
    by_hour = UsageQuestion("t1", whole, UTC_DAYS, bucket=UsageBucket.HOUR)
    found = [bucket_window(by_hour, at * HOUR_MS) for at in range(3)]
    assert found == [
        PeriodWindow(5, HOUR_MS),
        PeriodWindow(HOUR_MS, 2 * HOUR_MS),
        PeriodWindow(2 * HOUR_MS, whole.end_ms),
    ]
    by_day = UsageQuestion("t1", whole, UTC_DAYS, bucket=UsageBucket.DAY)
    assert bucket_window(by_day, 0) == bucket_window(UsageQuestion("t1", whole, UTC_DAYS), 0) == whole
    assert (by_day.buckets, by_hour.buckets) == ({0: PeriodWindow(0, 24 * HOUR_MS)}, {})
    by_month = UsageQuestion("t1", PeriodWindow(0, 31 * 24 * HOUR_MS + 1), UTC_DAYS, bucket=UsageBucket.MONTH)
    assert list(by_month.buckets) == [0, 31 * 24 * HOUR_MS]


def test_hours_that_no_rollup_answers_for() -> None:
    """Where days begin on a whole hour, those at the edges alone; else one a day more."""
    days = PeriodWindow(BEGIN, BEGIN + 5 * 24 * HOUR_MS)
    of = {
        zone: len(split_hours(UsageQuestion("t1", days, Calendar(ZoneInfo(zone)), bucket=UsageBucket.DAY)))
        for zone in ZONES
    }
    assert of == {
        "UTC": 0,
        "Europe/Berlin": 0,
        "Australia/Lord_Howe": 0,
        "Asia/Kathmandu": 5,
        "America/Havana": 0,
    }
    assert split_hours(UsageQuestion("t1", PeriodWindow(5, 2 * HOUR_MS + 1), UTC_DAYS)) == [
        0,
        2 * HOUR_MS,
    ]
    assert set(Facet) > OF_LINES
