"""What all processes counted in the last minutes, as percentiles, rates and levels."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.observability.recent_figures import MINUTE_MS, RecentFigures, figure_minute, quantile
from core.observability.request_figures import BOUNDS_MS, CLASSES, RequestFigures, outcome_of
from core.redis.members import whole
from engine.request import EndReason, PriorityClass

NOW_MS = 1_000 * MINUTE_MS + 30_000


def figures_of(*minutes: Mapping[str, int], now_ms: int = NOW_MS) -> RecentFigures:
    """Figures of these minutes, the last of which goes on."""
    last = now_ms - now_ms % MINUTE_MS
    begins = tuple(last - at * MINUTE_MS for at in reversed(range(len(minutes))))
    hashes = [{name.encode(): b"%d" % n for name, n in each.items()} for each in minutes]
    return RecentFigures(begins, now_ms, tuple(figure_minute(each, whole)[0] for each in hashes))


@given(st.lists(st.integers(0, 8_000_000), min_size=1), st.sampled_from(sorted(BOUNDS_MS)))
def test_a_percentile_is_within_the_bucket_of_the_exact_one(samples: list[int], metric: str):
    """Whatever was observed: no further from the exact percentile than that bucket is wide, and the last
    bound where it is above all of them."""
    figures = RequestFigures()
    for ms in samples:
        figures.series(metric, "bulk").observe(ms)
    read, bounds = figures_of(figures.take()).percentiles(metric, "bulk"), BOUNDS_MS[metric]
    assert read.count == len(samples)
    for q, seconds in ((0.5, read.p50), (0.95, read.p95), (0.99, read.p99)):
        exact = sorted(samples)[math.ceil(q * len(samples)) - 1]
        below = max((bound for bound in bounds if bound < exact), default=0)
        above = min((bound for bound in bounds if bound >= exact), default=bounds[-1])
        assert seconds is not None
        assert below <= seconds * 1000 <= above or math.isclose(seconds * 1000, above), q


def test_a_percentile_is_interpolated_as_prometheus_does():
    """Of ten observations within 100 to 200 ms the median is in the middle of the bucket; of nothing there is
    none."""
    assert quantile((100, 200), (0, 10, 0), 0.5) == pytest.approx(0.15)
    assert quantile((100, 200), (0, 0, 10), 0.5) == pytest.approx(0.2)
    assert quantile((100, 200), (0, 0, 0), 0.5) is None


def test_the_last_minute_is_seen_with_the_one_before():
    """A minute that has just begun shows neither a rate of nothing nor a gap; ends count as they are."""
    minute = {
        "output_tokens": 6_000,
        "first_token:bulk:100": 4,
        "ended:bulk:stop": 3,
        "ended:bulk:internal": 1,
    }
    read = figures_of({}, minute, {}, now_ms=1_000 * MINUTE_MS)
    assert read.rate("output_tokens") == [0, 100, 100]
    assert read.series("first_token") == [
        None,
        pytest.approx(0.099, abs=0.001),
        read.series("first_token")[1],
    ]
    assert read.series("first_token", priority="interactive") == [None, None, None]
    assert read.ended() == [0, 4, 0]
    assert read.ended({"internal"}, "bulk") == [0, 1, 0]
    assert read.faults() == [None, 0.25, 0.25]


def test_a_level_is_the_mean_of_its_samples_whoever_took_them():
    """Two processes that sampled the same pool do no harm; pools are summed, as are the classes that wait."""
    ours, others = RequestFigures(), RequestFigures()
    ours.sample("a:1", {"running": 4, "slots": 8, "waiting.bulk": 10, "waiting.interactive": 2})
    ours.sample("b", {"running": 1})
    others.sample("a:1", {"running": 6, "slots": 8})
    both = ours.take()
    for name, count in others.take().items():
        both[name] = both.get(name, 0) + count
    read = figures_of({}, both)
    assert read.levels("running") == [None, 6]
    assert read.levels("running", "a:1") == [None, 5]
    assert read.levels("slots", "a:1") == [None, 8]
    assert (read.levels("waiting")[1], read.levels("waiting.bulk")[1]) == (6, 5)
    assert read.levels("waiting", "of nobody") == [None, None]


def test_what_is_none_of_ours_is_passed_over():
    """Fields of another release, or of whoever writes Redis, neither fail a reading nor count; a bound that
    another release has counts in the bucket that reaches it."""
    odd = {
        **{b"first_token:bulk:": b"1", b"first_token:bulk:-5": b"1", b"first_token:vip:100": b"1"},
        **{b"ended:bulk:": b"1", b"\xff": b"1", b"running": b"1", b"level:mood:a": b"1", b"sampled:": b"1"},
        **{b"output_tokens": b"many", b"input_tokens": b"-4", b"first_token:bulk:\xd9\xa3": b"1"},
        b"ended:bulk:" + b"x" * 1_000: b"1",
    }
    minute, passed_over = figure_minute({**odd, b"first_token:bulk:90": b"2", b"sampled:b": b"0"}, whole)
    read = RecentFigures((NOW_MS - NOW_MS % MINUTE_MS,), NOW_MS, (minute,))
    assert passed_over == len(odd) - 1  # what is no number counts as none
    assert read.percentiles("first_token").count == 2
    assert read.percentiles("first_token").p99 == pytest.approx(0.1, abs=0.001)
    assert read.rate("output_tokens") == [0]
    assert read.levels("running") == [None]


def test_what_was_counted_is_taken_once():
    """Each flush takes what came since the last; below zero, as where a log lost its end, too."""
    figures = RequestFigures()
    figures.series("queue_wait", "no class").observe(-3)
    figures.add("output_tokens", 5)
    figures.ended("bulk", "stop", 70)
    first = {"queue_wait:interactive:5": 1, "output_tokens": 5, "duration:bulk:100": 1, "ended:bulk:stop": 1}
    assert figures.take() == first
    figures.add("output_tokens", -2)
    assert figures.take() == {"output_tokens": -2}
    assert figures.take() == {}


def test_labels_come_from_enums():
    """Classes are those of requests, and an outcome is an end's reason or one of a few codes."""
    assert tuple(each.value for each in PriorityClass) == CLASSES
    assert outcome_of(EndReason.ERROR, "engine_lost") == "engine_lost"
    assert outcome_of(EndReason.ERROR, "of a worker's own") == "error"
    assert outcome_of(EndReason.BLOCKED, "safety_blocked") == "blocked"
