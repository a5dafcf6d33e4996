"""The strip's numbers and the load, of what processes counted."""

from dataclasses import replace

from admin.overview.facts import OverviewFacts
from admin.overview.numbers import load_of, strip_of
from billing.reconciliation.tenant_keys import EndedStreams
from core.observability.recent_figures import MINUTE_MS, FigureMinute, RecentFigures
from tests.admin.overview.platforms import NOW_MS, a_platform, a_pool, a_worker

SERVING = a_pool("eu-1", [a_worker(running=3)])
UNREAD = EndedStreams((), 4, NOW_MS - 840)


def minute(**counts: int) -> FigureMinute:
    """A minute with these fields, whose names have `_` for `:`."""
    made = FigureMinute()
    for name, count in counts.items():
        assert made.add(name.replace("__", ":").encode(), count), name
    return made


def with_figures(facts: OverviewFacts, *minutes: FigureMinute) -> OverviewFacts:
    """The same, with what was counted in the last minutes."""
    assert facts.redis is not None
    last = NOW_MS - NOW_MS % MINUTE_MS
    begins = tuple(last - MINUTE_MS * at for at in reversed(range(len(minutes))))
    figures = RecentFigures(begins, last + 30_000, minutes)
    return replace(facts, redis=replace(facts.redis, figures=figures))


BUSY = minute(
    first_token__interactive__400=95,
    first_token__interactive__1000=5,
    between_tokens__interactive__30=100,
    ended__interactive__stop=98,
    ended__interactive__engine_lost=2,
    output_tokens=54_000,
    **{
        "sampled__eu-1": 2,
        "level__running__eu-1": 12,
        "level__slots__eu-1": 32,
        "level__waiting.bulk__eu-1": 6,
    },
)


def test_numbers_are_those_that_processes_counted() -> None:
    """Latencies of the last minutes, errors of the hour, and a value a minute."""
    strip = strip_of(
        with_figures(a_platform(SERVING, unread=UNREAD, quarantined=1), minute(), BUSY, minute())
    )
    assert strip.running is not None
    assert (strip.running.value, strip.running.of) == (3, 16)
    assert strip.running.series == [None, 6.0, 6.0]
    assert strip.output is not None
    assert (strip.output.tokens_per_second, strip.output.series[1]) == (600.0, 900.0)
    assert strip.first_token is not None
    assert (strip.first_token.p95, strip.first_token.p99) == (0.4, 0.95)
    assert strip.between_tokens is not None
    assert strip.between_tokens.series == [None, 0.0297, 0.0297]
    assert strip.errors is not None
    assert (strip.errors.share, strip.errors.count, strip.errors.of) == (0.02, 2, 100)
    assert strip.errors.series == [None, 0.02, 0.02]
    assert (strip.unbilled.seconds, strip.unbilled.ended_unread, strip.unbilled.quarantined) == (0.8, 4, 1)


def test_the_load_is_a_value_a_minute() -> None:
    """What ran, waited and could have run."""
    load = load_of(with_figures(a_platform(SERVING), BUSY, minute()))
    assert load is not None
    assert load.minutes == ["2027-01-15T07:59:00+00:00", "2027-01-15T08:00:00+00:00"]
    assert (load.running, load.waiting, load.slots) == ([6.0, 6.0], [3.0, 3.0], [16.0, 16.0])


def test_what_nobody_counted_is_null() -> None:
    """No number is made up; what is now is known all the same."""
    nothing = with_figures(a_platform(SERVING), minute(), minute())
    strip = strip_of(nothing)
    assert (strip.output, strip.first_token, strip.between_tokens, strip.errors) == (None, None, None, None)
    assert load_of(nothing) is None
    assert strip.running is not None
    assert strip.running.value == 3
    gone = strip_of(OverviewFacts(NOW_MS, None))
    assert (gone.running, gone.unbilled.seconds, gone.unbilled.ended_unread) == (None, None, None)


def test_finance_has_the_last_number_alone() -> None:
    """What is not billed yet."""
    facts = with_figures(a_platform(sees_pools=False, unread=UNREAD), BUSY)
    strip = strip_of(facts)
    assert (strip.running, strip.output, strip.errors, load_of(facts)) == (None, None, None, None)
    assert strip.unbilled.ended_unread == 4
