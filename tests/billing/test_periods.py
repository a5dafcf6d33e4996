"""Windows of time: every instant is in exactly one, in every zone, whatever clocks do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.periods import (
    LAST_MS,
    Calendar,
    ClosedMonth,
    Period,
    PeriodWindow,
    month_number,
    month_text,
    window_at,
    zone_named,
)

ZONES = sorted(available_timezones())
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
MOMENTS = st.integers(0, 4_102_444_800_000)  # to the year 2100
WINDOWS = st.sampled_from([Period.DAY, Period.WEEK, Period.MONTH])


def ms(text: str) -> int:
    """Unix ms of a time in ISO 8601."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@given(WINDOWS, st.sampled_from(ZONES), MOMENTS)
def test_every_instant_is_in_exactly_one_window(period: Period, name: str, at_ms: int) -> None:
    """INV-27: Its window says the same of each of its instants, and the next one begins where it ends."""
    zone = ZoneInfo(name)
    window = window_at(period, zone, at_ms)
    assert window.start_ms <= at_ms < window.end_ms
    for inside in {
        max(0, window.start_ms),
        (max(0, window.start_ms) + window.end_ms) // 2,
        window.end_ms - 1,
    }:
        assert window_at(period, zone, inside) == window
    assert window_at(period, zone, window.end_ms).start_ms == window.end_ms


def test_the_months_of_every_zone_follow_one_another() -> None:
    """Ten years without a gap or an overlap."""
    for name in ZONES:
        zone, at = ZoneInfo(name), ms("2016-01-01T00:00+00:00")
        while at < ms("2027-01-01T00:00+00:00"):
            window = window_at(Period.MONTH, zone, at)
            assert window.start_ms <= at < window.end_ms, name
            at = window.end_ms


# Clocks turned at midnight, a day that never was (Apia), half hours, a quarter of an hour, two hours.
TURNED = (
    "America/Havana America/Sao_Paulo Asia/Beirut Asia/Kathmandu Africa/Cairo Pacific/Apia Antarctica/Troll"
)


@pytest.mark.parametrize("name", [*TURNED.split(), "Australia/Lord_Howe", "Europe/Berlin", "Asia/Pyongyang"])
def test_the_days_of_a_zone_follow_one_another(name: str) -> None:
    """From 2009 to 2027 without a gap or an overlap: the changes of clocks and of zones of those years."""
    zone = ZoneInfo(name)
    at, end = ms("2009-01-01T00:00+00:00"), ms("2027-01-01T00:00+00:00")
    while at < end:
        window = window_at(Period.DAY, zone, at)
        assert window.start_ms <= at < window.end_ms
        assert 0 < window.end_ms - window.start_ms <= 2 * DAY_MS
        assert window_at(Period.DAY, zone, window.end_ms - 1) == window
        at = window.end_ms


def test_windows_begin_at_local_midnight() -> None:
    """Also of a day of 23 hours, and of a month with a day of 25."""
    berlin = ZoneInfo("Europe/Berlin")
    spring = window_at(Period.DAY, berlin, ms("2026-03-29T12:00+00:00"))
    assert spring == PeriodWindow(ms("2026-03-29T00:00+01:00"), ms("2026-03-30T00:00+02:00"))
    assert spring.end_ms - spring.start_ms == 23 * 3_600_000
    october = window_at(Period.MONTH, berlin, ms("2026-10-31T22:59:59+00:00"))
    assert october == PeriodWindow(ms("2026-10-01T00:00+02:00"), ms("2026-11-01T00:00+01:00"))
    week = window_at(Period.WEEK, ZoneInfo("Asia/Kathmandu"), ms("2026-11-21T00:00+00:00"))
    assert week == PeriodWindow(ms("2026-11-16T00:00+05:45"), ms("2026-11-23T00:00+05:45"))


@pytest.mark.parametrize("at_ms", [0, 5, LAST_MS - 1])
def test_a_lifetime_has_one_window(at_ms: int) -> None:
    """Which holds any time that there is."""
    assert window_at(Period.LIFETIME, ZoneInfo("UTC"), at_ms) == PeriodWindow(0, LAST_MS)


def test_what_is_no_zone_or_no_time_is_refused() -> None:
    """Paths and nonsense too."""
    for bad in ("", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "x" * 300):
        with pytest.raises(ValueError, match="time zone"):
            zone_named(bad)
    assert zone_named("Europe/Berlin").utcoffset(datetime(2026, 1, 1)) == timedelta(hours=1)  # noqa: DTZ001
    for outside in (-1, LAST_MS):
        with pytest.raises(ValueError, match="outside"):
            window_at(Period.DAY, ZoneInfo("UTC"), outside)
    assert datetime.fromtimestamp(LAST_MS / 1000, UTC).year == 9999


@pytest.mark.parametrize("number", [month_number(1970, 1), month_number(9998, 12)])
def test_the_first_and_the_last_month_are_months(number: int) -> None:
    """And those beyond are none, at any instant."""
    calendar = Calendar(ZoneInfo("UTC"))
    window = calendar.window(number)
    assert calendar.month_at(window.start_ms) == calendar.month_at(window.end_ms - 1) == number
    assert {calendar.day_at(at).start_ms for at in (window.start_ms, window.start_ms + 1)} == {
        window.start_ms
    }
    for beyond in (month_number(1969, 12), month_number(9999, 1)):
        with pytest.raises(ValueError, match="outside"):
            calendar.window(beyond)
    for outside in (-1, LAST_MS):
        with pytest.raises(ValueError, match="outside"):
            calendar.month_at(outside)


MOVES = [
    ("UTC", "Pacific/Kiritimati"),
    ("Pacific/Kiritimati", "Etc/GMT+12"),
    ("America/New_York", "Asia/Tokyo"),
    ("Asia/Tokyo", "America/New_York"),
    ("Asia/Kolkata", "UTC"),
    ("Europe/Berlin", "America/Havana"),
]


@pytest.mark.parametrize(("old", "new"), MOVES)
@pytest.mark.parametrize("closed", [(2024, 12), (2025, 3), (2025, 10), (2026, 1)])
def test_months_follow_one_another_where_the_zone_changes(
    old: str, new: str, closed: tuple[int, int]
) -> None:
    """What is closed stays, the next one begins at its end and is over with the new zone's month; days make
    up both. At the ends of years, where clocks turn, to the east and to the west."""
    number = month_number(*closed)
    frozen = ClosedMonth(Calendar(ZoneInfo(old)).window(number), ZoneInfo(old))
    calendar = Calendar(ZoneInfo(new), {number: frozen})
    assert calendar.window(number) == frozen.window
    assert calendar.window(number + 1).end_ms == Calendar(ZoneInfo(new)).window(number + 1).end_ms
    for each in range(number - 3, number + 4):
        window = calendar.window(each)
        assert window.end_ms == calendar.window(each + 1).start_ms
        assert {calendar.month_at(at) for at in (window.start_ms, window.end_ms - 1)} == {each}
        at = window.start_ms
        while at < window.end_ms:
            day = calendar.day_at(at)
            assert (day.start_ms, day) == (at, calendar.day_at(day.end_ms - 1))
            at = day.end_ms
        assert at == window.end_ms


@given(st.sampled_from(ZONES), MOMENTS)
def test_open_months_are_those_of_the_zone(name: str, at_ms: int) -> None:
    """A calendar without closed months says what the zone says."""
    calendar = Calendar(ZoneInfo(name))
    number = calendar.month_at(at_ms)
    assert calendar.window(number) == window_at(Period.MONTH, ZoneInfo(name), at_ms)
    assert month_text(number) == f"{number // 12:04}-{number % 12 + 1:02}"


def test_days_of_months_around_closed_ones_are_of_their_zones_and_in_their_months() -> None:
    """What lies before all closed months goes with the first; that may begin before its first midnight, as
    usage from before was in it: the day it begins in ends there."""
    utc, tokyo = ZoneInfo("UTC"), ZoneInfo("Asia/Tokyo")
    october = month_number(2026, 10)
    whole = Calendar(utc).window(october)
    begins = whole.start_ms - 12 * HOUR_MS
    calendar = Calendar(tokyo, {october: ClosedMonth(PeriodWindow(begins, whole.end_ms), utc)})
    zones = [calendar.zone_of(october + number).key for number in (-2, -1, 0, 1)]
    assert zones == ["UTC", "UTC", "UTC", "Asia/Tokyo"]
    midnight = whole.start_ms - 24 * HOUR_MS
    assert calendar.day_at(begins - 1) == PeriodWindow(midnight, begins)
    assert calendar.day_at(begins) == PeriodWindow(begins, whole.start_ms)
