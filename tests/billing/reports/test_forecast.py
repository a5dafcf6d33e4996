"""What a month will cost: of days that go on as they did, that grow, that jump, and of almost none."""

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from billing.reports.forecast import AHEAD_DAYS, SpendForecast, SpentDays, forecast, part_gone
from billing.reports.spend_level import since_jump

TODAY = date(2026, 11, 16)  # a Monday
AMOUNTS = st.integers(-(10**15), 10**18)


def of_days(days: Sequence[int], today_nano: int = 0, gone: float = 0.0) -> SpendForecast:
    """What is forecast of these days until yesterday."""
    found = forecast(SpentDays(days, TODAY, today_nano, gone))
    assert found is not None
    return found


def weekly(day: int, least: int = 300, most: int = 1000) -> int:
    """A day's cost by its weekday, in nano. `day`: counted from today."""
    return (least if (TODAY + timedelta(day)).weekday() > 4 else most) * 10**9


@example([-1, 0, -1, 0, 0, 0], 0, 0.0)  # a week of refunds, and one of nothing
@given(st.lists(AMOUNTS, max_size=70), AMOUNTS.map(abs), st.floats(0, 1))
def test_whatever_was_booked_the_path_only_rises_within_its_band(
    days: list[int], today_nano: int, gone: float
) -> None:
    """Also of refunds, of nothing and of very much; what is booked of today is never taken back."""
    found = forecast(SpentDays(days, TODAY, today_nano, gone))
    if found is None:
        return
    assert [each.day for each in found.sums] == [TODAY + timedelta(at) for at in range(AHEAD_DAYS)]
    before = found.sums[0]
    for each in found.sums:
        assert today_nano <= each.low_nano <= each.expected_nano <= each.high_nano
        assert each.expected_nano >= before.expected_nano
        assert (each.low_nano >= before.low_nano, each.high_nano >= before.high_nano) == (True, True)
        before = each


@given(st.lists(AMOUNTS.map(abs), min_size=3, max_size=60), st.integers(2, 1000))
def test_in_another_unit_it_is_the_same(days: list[int], times: int) -> None:
    """Amounts have no size of their own."""
    one, many = (forecast(SpentDays([cost * each for cost in days], TODAY)) for each in (1, times))
    if one is None or many is None:
        return
    assert many.sums[9].expected_nano == pytest.approx(one.sums[9].expected_nano * times, rel=1e-6, abs=times)


@pytest.mark.parametrize("days", [[], [0] * 30, [5], [0] * 20 + [5, 7]])
def test_of_less_than_three_days_of_use_nothing_is_said(days: list[int]) -> None:
    """Days before the first use do not count."""
    assert forecast(SpentDays(days, TODAY, 7)) is None


def test_three_days_are_enough_for_a_wide_band() -> None:
    """Its width grows with what was not seen: weekdays, and a second week."""
    few, more = of_days([10**9] * 3).sums[13], of_days([10**9] * 42).sums[13]
    assert few.expected_nano == pytest.approx(14 * 10**9, rel=0.01)
    assert few.high_nano - few.low_nano > 2 * (more.high_nano - more.low_nano)


@pytest.mark.parametrize("weeks", [2, 4, 8])
def test_weekends_are_known_from_weekends(weeks: int) -> None:
    """The next two weeks cost what the last ones did, and their weekends as little."""
    found = of_days([weekly(day) for day in range(-7 * weeks, 0)])
    assert found.sums[13].expected_nano == pytest.approx(sum(weekly(day) for day in range(14)), rel=0.02)
    weekend = found.sums[6].expected_nano - found.sums[4].expected_nano
    assert weekend == pytest.approx(600 * 10**9, rel=0.4 / weeks)


def test_growth_goes_on() -> None:
    """Of 2 % a day, of which a level alone would miss a sixth."""
    found = of_days([round(10**12 * 1.02**day) for day in range(-42, 0)])
    assert found.sums[14].expected_nano == pytest.approx(
        sum(10**12 * 1.02**day for day in range(15)), rel=0.08
    )


def test_after_a_jump_the_days_before_it_do_not_count() -> None:
    """Where it stays there for some days; one odd day is no jump."""
    chance = Random("a jump")
    days = [round(chance.gauss(1, 0.05) * (1 if day < -8 else 3) * 10**12) for day in range(-40, 0)]
    assert len(since_jump([float(day) for day in days])) == 8
    assert of_days(days).sums[9].expected_nano == pytest.approx(30 * 10**12, rel=0.05)
    odd = [10**12] * 30 + [40 * 10**12] + [10**12] * 5
    assert of_days(odd).sums[9].expected_nano == pytest.approx(10 * 10**12, rel=0.15)


def test_what_today_shows_of_itself_counts() -> None:
    """A day that began twice as dear as usual goes on dearer than usual, but not twice as dear."""
    days = [weekly(day) for day in range(-42, 0)]
    usual, dear = of_days(days, weekly(0) // 2, 0.5).sums[0], of_days(days, weekly(0), 0.5).sums[0]
    assert usual.expected_nano == pytest.approx(weekly(0), rel=0.02)
    rest = dear.expected_nano - weekly(0)
    assert weekly(0) * 0.55 < rest < weekly(0) * 0.95


def test_money_ends_on_the_day_on_which_the_path_reaches_it() -> None:
    """Earlier by the upper bound, later by the lower one; not at all beyond the days that are asked for."""
    found = of_days([10**9] * 42)
    expected, early, late = found.crossing(10 * 10**9)
    assert expected == TODAY + timedelta(9)
    assert early is not None
    assert expected is not None
    assert late is not None
    assert early < expected < late
    assert found.crossing(10 * 10**9, until=TODAY + timedelta(5)) == (None, None, None)
    assert found.crossing(0).expected == TODAY


def test_the_part_of_a_day_that_is_gone_is_that_of_its_cost() -> None:
    """Not of its hours: most is spent by day."""
    day = [0] * 8 + [10] * 10 + [0] * 6
    assert part_gone([day, day], 13.5) == pytest.approx(0.55)
    assert part_gone([], 6) == 0.25
