"""Which time a day or month is compared with, in zones whose clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from billing.periods import HOUR_MS, Calendar, ClosedMonth, PeriodWindow, month_of
from billing.reports.compared_times import times_of_day, times_of_month
from core.errors import Refused

BERLIN = Calendar(ZoneInfo("Europe/Berlin"))
KATHMANDU = Calendar(ZoneInfo("Asia/Kathmandu"))


def at(text: str) -> int:
    """Unix ms of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = at("2026-11-17T13:32:08")


def test_a_day_is_compared_with_the_same_weekday_before_each_as_long_as_it_was() -> None:
    """Also where clocks were turned back on one of them: that day had 25 hours."""
    times = times_of_day("2026-11-01", BERLIN, NOW)
    assert (times.name, times.before_name, times.over) == ("2026-11-01", "2026-10-25", True)
    assert times.window == PeriodWindow(at("2026-10-31T23:00"), at("2026-11-01T23:00"))
    assert times.before == PeriodWindow(at("2026-10-24T22:00"), at("2026-10-25T23:00"))
    assert times.before.end_ms - times.before.start_ms == 25 * HOUR_MS


def test_days_begin_where_the_zone_has_them() -> None:
    """In Kathmandu a quarter past an hour of UTC's."""
    times = times_of_day("2026-11-12", KATHMANDU, NOW)
    assert times.window == PeriodWindow(at("2026-11-11T18:15"), at("2026-11-12T18:15"))


def test_without_a_day_it_is_yesterday() -> None:
    """Of the zone: where it is Wednesday already, Tuesday."""
    assert times_of_day("", BERLIN, at("2026-11-17T23:30")).name == "2026-11-17"


def test_today_is_compared_up_to_its_last_full_hour_with_as_much_of_the_day_before() -> None:
    """In its first hour up to now; and never with nothing."""
    times = times_of_day("2026-11-17", BERLIN, NOW)
    assert not times.over
    assert times.window == PeriodWindow(at("2026-11-16T23:00"), at("2026-11-17T13:00"))
    assert times.before == PeriodWindow(at("2026-11-09T23:00"), at("2026-11-10T13:00"))
    early = times_of_day("2026-11-17", BERLIN, at("2026-11-16T23:20"))
    assert early.window.end_ms - early.window.start_ms == 20 * 60_000
    begun = times_of_day("2026-11-17", BERLIN, at("2026-11-16T23:00"))
    assert begun.window.end_ms - begun.window.start_ms == 1


def test_a_month_is_compared_with_the_one_before_up_to_the_same_day_while_it_is_open() -> None:
    """Of one that is over all days count, as many as each has; on its first day the hours so far do."""
    times = times_of_month("2026-10", BERLIN, NOW)
    assert (times.before_name, times.over) == ("2026-09", True)
    assert times.before == PeriodWindow(at("2026-08-31T22:00"), at("2026-09-30T22:00"))
    now = times_of_month("2026-11", BERLIN, NOW)
    assert now.window == PeriodWindow(at("2026-10-31T23:00"), at("2026-11-16T23:00"))
    assert now.before == PeriodWindow(at("2026-09-30T22:00"), at("2026-10-16T22:00"))
    long = times_of_month("2027-03", BERLIN, at("2027-03-30T12:00"))
    assert long.before == PeriodWindow(at("2027-01-31T23:00"), at("2027-02-28T23:00"))
    first = times_of_month("2026-11", BERLIN, at("2026-11-01T05:10"))
    assert first.before == PeriodWindow(at("2026-09-30T22:00"), at("2026-10-01T04:00"))


def test_a_day_of_a_closed_month_is_as_long_as_it_was_when_that_was_closed() -> None:
    """Whatever zone the tenant took later."""
    october = PeriodWindow(at("2026-09-30T22:00"), at("2026-10-31T23:00"))
    moved = Calendar(ZoneInfo("UTC"), {month_of("2026-10"): ClosedMonth(october, BERLIN.zone)})
    assert times_of_day("2026-10-14", moved, NOW).window.start_ms == at("2026-10-13T22:00")
    assert times_of_day("2026-11-01", moved, NOW).window.start_ms == at("2026-10-31T23:00")


@pytest.mark.parametrize(
    "text", ["2026-11-31", "yesterday", "2026-11", "0000-01-01", "9999-12-31", "2026-11-18"]
)
def test_what_is_no_day_or_is_not_here_yet_is_refused(text: str) -> None:
    """By the field."""
    with pytest.raises(Refused) as refused:
        times_of_day(text, BERLIN, NOW)
    assert refused.value.refusal.field == "day"
    with pytest.raises(Refused):
        times_of_month("2026-12", BERLIN, NOW)
