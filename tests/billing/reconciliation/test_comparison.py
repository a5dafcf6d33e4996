"""What reconciliation decides by what it read. Pure."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from billing.ledger.transactions import LineKind
from billing.quota.types import AdmissionState, DirectoryEntry
from billing.reconciliation import pools, repair_pauses, unbilled
from billing.reconciliation.comparison import BookSums, Check, Comparison, ComparisonState
from billing.reconciliation.run import _or_why_not, _storable  # pyright: ignore[reportPrivateUsage]
from billing.reconciliation.tenant_keys import EndedStreams, is_stuck
from billing.reconciliation.unbilled import EndedPoolHour, UnbilledShare
from billing.tables.reconciliation import EndedHour, EngineHour, ReconMark
from billing.usage import EndedCounts, EngineCounts

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
HOUR = 500_000 * HOUR_MS

ADMITTED_MS, DEADLINE_MS, GRACE_MS, ENQUEUED_MS = 1_000_000, 9_000_000, 60_000, 90_000


@pytest.mark.parametrize(
    ("state", "in_pool", "now_ms", "is_late"),
    [
        (AdmissionState.OPEN, True, DEADLINE_MS + GRACE_MS, False),
        (AdmissionState.OPEN, True, DEADLINE_MS + GRACE_MS + 1, True),
        (AdmissionState.OPEN, False, ADMITTED_MS + ENQUEUED_MS, False),
        (AdmissionState.OPEN, False, ADMITTED_MS + ENQUEUED_MS + 1, True),
        (AdmissionState.OPEN, True, ADMITTED_MS + ENQUEUED_MS + 1, False),
        (AdmissionState.ENDED, True, ADMITTED_MS, True),
        (None, True, ADMITTED_MS, True),
    ],
)
def test_a_hold_is_stuck_once_its_time_is_over(
    state: AdmissionState | None, in_pool: bool, now_ms: int, is_late: bool
) -> None:
    """A minute behind its deadline, or a minute and a half after it should have come to a queue."""
    found = (
        None
        if state is None
        else SimpleNamespace(state=state, admitted_ms=ADMITTED_MS, deadline_ms=DEADLINE_MS)
    )
    assert is_stuck(cast(DirectoryEntry | None, found), in_pool, now_ms) is is_late


def test_what_is_shown_of_a_comparison() -> None:
    """Money as such, other numbers with their unit; what waits is no difference, and never that old."""
    one = Comparison(Check.R4, "t1", "cost", "nano", 1_500_000_000, 0, "so", age_ms=3)
    assert one.in_words(one.expected) == "$1.50"
    assert replace(one, unit="tokens").in_words(12_345) == "12,345 tokens"
    assert (one.state, one.difference, one.facts()["detail"]) == (
        ComparisonState.DIFFERS,
        -1_500_000_000,
        "so",
    )
    waits = replace(one, waiting="soon").aged(-1)
    assert (waits.state, waits.age_ms, waits.facts()["detail"]) == (ComparisonState.WAITING, 0, "soon")
    assert replace(one, actual=one.expected).aged(5).facts() | {"state": "", "age_ms": 0} == {
        "check": "R4", "tenant": "t1", "subject": "cost", "unit": "nano", "expected": 1_500_000_000,
        "actual": 1_500_000_000, "difference": 0, "state": "", "age_ms": 0, "detail": "so",
    }  # fmt: skip


def test_sums_of_books_are_of_kinds_and_meters() -> None:
    """What was used is what was posted, without corrections."""
    sums = BookSums(3, {"usage:input": 5, "adjust:input": 2}, {"usage:input": 7, "adjust:input": 1})
    both = sums.plus(BookSums(1, {"usage:input": 1}, {"usage:output": 4}, {"usage:receivable": 9}))
    assert (both.requests, both.charged(), both.charged(LineKind.USAGE)) == (4, 8, 6)
    assert (both.used("input"), both.used("input", "output"), both.used("request")) == (7, 11, 0)
    assert both.accounts == {"usage:receivable": 9}


def test_numbers_are_kept_as_far_as_a_column_holds_them() -> None:
    """A worker's may be beyond."""
    most = (1 << 63) - 1
    assert [_storable(each) for each in (most + 1, most, 0, -most, -most - 1)] == [
        most,
        most,
        0,
        -most,
        -most,
    ]


def test_a_stream_that_was_written_later_than_now_waits_for_no_time() -> None:
    """Clocks differ."""
    assert EndedStreams(("1-0",), 1, 9_001).waiting(9_000) == "not drained: 1 unread, the oldest for 0 s"


@pytest.mark.parametrize(
    ("hour_ms", "at_ms", "counts", "is_one"),
    [
        (HOUR, HOUR, EndedCounts(1, 2, 3), True),
        (HOUR, HOUR + WEEK_MS, EndedCounts(), True),
        (HOUR, HOUR + WEEK_MS + 1, EndedCounts(), False),
        (HOUR, HOUR - HOUR_MS, EndedCounts(), True),
        (HOUR, HOUR - HOUR_MS - 1, EndedCounts(), False),
        (HOUR + 1, HOUR + 1, EndedCounts(), False),
        (HOUR, HOUR, EndedCounts((1 << 50) - 1), True),
        (HOUR, HOUR, EndedCounts(1 << 50), False),
        (HOUR, HOUR, EndedCounts(cost_nano=-1), False),
    ],
)
def test_an_hour_of_ends_is_a_whole_one_of_the_last_week(
    hour_ms: int, at_ms: int, counts: EndedCounts, is_one: bool
) -> None:
    """Or the next, as clocks differ; its counts are some."""
    told = f"a:b:{hour_ms}".encode(), msgspec.msgpack.encode(counts)
    if not is_one:
        with pytest.raises(ValueError, match="no process ended this"):
            unbilled._row("p", *told, at_ms)  # pyright: ignore[reportPrivateUsage]
        return
    row = unbilled._row("p", *told, at_ms)  # pyright: ignore[reportPrivateUsage]
    assert row == {"tenant_id": "", "pool": "p", "writer": "a:b", "hour_ms": hour_ms, "updated_ms": at_ms} | (
        msgspec.structs.asdict(counts)
    )


@pytest.mark.parametrize(
    ("told", "kept", "agreed_ms"),
    [
        ((3, 30, 300), (3, 30, 300), 7),
        ((2, 20, 200), (3, 30, 300), 7),
        ((4, 20, 200), (4, 30, 300), None),
        ((3, 30, 301), (3, 30, 301), None),
    ],
)
def test_what_ended_never_becomes_less(
    told: tuple[int, ...], kept: tuple[int, ...], agreed_ms: int | None
) -> None:
    """What became more is looked at again; a writer that nobody knew is new."""
    names = ("requests", "output", "cost_nano")
    row: dict[str, Any] = {"writer": "w", "hour_ms": HOUR} | dict(zip(names, told, strict=True))
    known = EndedHour(
        pool="p", writer="w", hour_ms=HOUR, requests=3, output=30, cost_nano=300, updated_ms=0, agreed_ms=7
    )
    merged = unbilled._with_known  # pyright: ignore[reportPrivateUsage]
    (one,) = merged([row], {("w", HOUR): known})
    assert (tuple(one[name] for name in names), one["agreed_ms"]) == (kept, agreed_ms)
    (new,) = merged([row], {("v", HOUR): known, ("w", HOUR + HOUR_MS): known})
    assert new == row | {"agreed_ms": None}


def test_what_is_lost_of_an_hour_is_neither_billed_nor_held() -> None:
    """Each by itself, and never below nothing; it waits only where something is lost."""
    hour = EndedPoolHour("p", 5 * HOUR_MS, 9, 90, 4, 50, 2, 30)
    assert (hour.lost_requests, hour.lost_output) == (3, 10)
    requests, tokens = hour.compared("soon")
    assert (requests.subject, requests.expected, requests.actual) == (
        "p 1970-01-01 05:00 UTC ended requests",
        9,
        6,
    )
    assert (tokens.subject, tokens.expected, tokens.actual) == ("p 1970-01-01 05:00 UTC ended tokens", 90, 80)
    assert (requests.detail, requests.waiting, tokens.waiting) == ("2 held", "soon", "soon")
    whole = replace(hour, billed_requests=7, billed_output=60)
    assert [(each.waiting, each.state) for each in whole.compared("soon")] == [
        ("", ComparisonState.EQUAL)
    ] * 2
    assert UnbilledShare("p", 4, 1).part == 0.25


def engine_row(hour_ms: int, at_ms: int, **counts: int) -> dict[str, Any]:
    """What is kept of what a worker says."""
    value = msgspec.msgpack.encode(EngineCounts(**counts))
    return pools._row("p", f"w:1:{hour_ms}".encode(), value, at_ms)  # pyright: ignore[reportPrivateUsage]


def test_an_engines_hour_is_stored_as_it_was_told() -> None:
    """By a worker whose clock may be ahead; what no column counts exactly is no count."""
    facts = msgspec.structs.asdict(EngineCounts(engine_prompt=(1 << 53) - 1))
    names = {"tenant_id": "", "pool": "p", "worker": "w:1", "hour_ms": 0, "updated_ms": 5}
    assert engine_row(0, 5, engine_prompt=(1 << 53) - 1) == names | facts
    assert engine_row(HOUR, 5)["updated_ms"] == HOUR
    for wrong in ({"engine_prompt": 1 << 53}, {"prompt_test": -1}):
        with pytest.raises(ValueError, match="no row holds this"):
            engine_row(HOUR, 5, **wrong)
    with pytest.raises(ValueError, match="no row holds this"):
        engine_row(-HOUR_MS, 5)


@pytest.mark.parametrize(
    ("engine", "unseen_max", "actual"), [(10, 0, 6), (10, 3, 9), (10, 9, 10), (6, 9, 6), (5, 9, 6)]
)
def test_what_an_engine_never_handed_over_is_no_difference(engine: int, unseen_max: int, actual: int) -> None:
    """As far as it may have been aborted: never more than is missing, nor where there is too much."""
    counts: dict[str, Any] = {"output_taken": 1, "output_dropped": 2, "output_test": 3}
    counts |= {"prompt_new": 1, "prompt_again": 2, "prompt_test": 3}
    facts: dict[str, Any] = msgspec.structs.asdict(
        EngineCounts(
            engine_prompt=engine,
            engine_output=engine,
            prompt_unseen_max=unseen_max,
            output_unseen_max=unseen_max,
        )
    )
    row = EngineHour(pool="p", worker="w", hour_ms=2 * HOUR_MS, updated_ms=0, **(facts | counts))
    output, prompt = pools.engine_hour(row)
    assert (output.subject, output.expected, output.actual) == (
        "p w 1970-01-01 02:00 UTC output",
        engine,
        actual,
    )
    assert (prompt.subject, prompt.expected, prompt.actual, prompt.detail) == (
        "p w 1970-01-01 02:00 UTC prompt",
        engine,
        actual,
        "",
    )
    assert output.detail == f"unbilled {100 * (engine - 1) / engine:.1f} %"


@pytest.mark.parametrize(("times", "minutes"), [(1, 2), (2, 4), (3, 8), (10, 1_024), (11, 1_440)])
def test_each_loss_on_a_server_pauses_twice_as_long(times: int, minutes: int) -> None:
    """From two minutes up to a day. Two days without a loss, and it begins anew: to the millisecond."""
    mark = ReconMark(tenant_id="t", chain="healed", seq=times, sha256="a", sums={}, verified_ms=1_000)
    until_ms = 1_000 + minutes * 60_000
    assert repair_pauses.paused_until_ms(mark, "a", until_ms - 1) == until_ms
    assert repair_pauses.paused_until_ms(mark, "a", until_ms) == 0
    two_days_ms = 2 * 24 * HOUR_MS
    assert repair_pauses.rebuild_count(mark, "a", 1_000 + two_days_ms) == times
    assert repair_pauses.rebuild_count(mark, "a", 1_001 + two_days_ms) == 0
    assert repair_pauses.rebuild_count(mark, "b", 1_001) == repair_pauses.rebuild_count(None, "a", 1_001) == 0


async def failing(error: Exception) -> list[Comparison]:
    """A comparison of what is none."""
    raise error


@pytest.mark.parametrize(
    ("pool", "subject"), [("", "could not be compared"), ("a", "a could not be compared")]
)
async def test_what_cannot_be_compared_is_a_difference(pool: str, subject: str) -> None:
    """Of each check that it leaves undone; a database that is away is none: that is tried again."""
    why = _or_why_not(failing(ValueError("secret")), "t1", pool, {Check.R4, Check.R1})
    wanted = Comparison(Check.R1, "t1", subject, "faults", 0, 1, "ValueError")
    assert await why == [wanted, replace(wanted, check=Check.R4)]
    assert (wanted.state, wanted.is_uncompared) == (ComparisonState.DIFFERS, True)
    with pytest.raises(ConnectionError):
        await _or_why_not(failing(ConnectionError()), "t1", pool, {Check.R4})
