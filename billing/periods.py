"""Days, weeks and months in a tenant's time zone, as intervals of Unix milliseconds. Pure.

A window begins at the first instant of its local date, wherever clocks were turned: every instant is in
exactly one window of a kind, and the end of one is the start of the next.
"""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

HOUR_MS = 3_600_000
AHEAD_MS_MAX = 397 * 24 * HOUR_MS  # 13 months, whichever they are: what begins later wants a yes
FIRST_MS = 0
LAST_MS = 253_370_764_800_000  # 9999-01-01: local dates beyond have no next one


class Period(StrEnum):
    """How long a window is. `lifetime` has one, from the beginning to the end of time."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    LIFETIME = "lifetime"


class Window(NamedTuple):
    """From `start_ms` up to, not including, `end_ms`."""

    start_ms: int
    end_ms: int


def zone_named(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises ValueError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone: use an IANA name like Europe/Berlin") from error


def window_at(period: Period, zone: ZoneInfo, at_ms: int) -> Window:
    """The window that an instant is in. Weeks begin on Monday (ISO 8601).

    Raises ValueError outside the years 1970 to 9998."""
    if not FIRST_MS <= at_ms < LAST_MS:
        raise ValueError("the time is outside the years 1970 to 9998")
    if period is Period.LIFETIME:
        return Window(FIRST_MS, LAST_MS)
    today = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()
    first = _first_day(period, today)
    # The instant may lie before its date begins where midnight happens twice: then it is the day before's.
    start = _midnight_ms(first, zone)
    if at_ms < start:
        first = _first_day(period, first - timedelta(days=1))
        start = _midnight_ms(first, zone)
    return Window(start, _midnight_ms(_next_first(period, first), zone))


def month_name(window: Window, zone: ZoneInfo) -> str:
    """`2026-10`."""
    middle = (window.start_ms + window.end_ms) // 2
    return f"{datetime.fromtimestamp(middle / 1000, zone):%Y-%m}"


def _first_day(period: Period, day: date) -> date:
    if period is Period.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if period is Period.MONTH else day


def _next_first(period: Period, first: date) -> date:
    if period is Period.MONTH:
        return (first.replace(day=28) + timedelta(days=4)).replace(day=1)
    return first + timedelta(days=7 if period is Period.WEEK else 1)


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    """The first instant of a local date. Where clocks skip midnight it is the moment of the skip."""
    midnight = datetime.combine(day, time(), tzinfo=zone)
    return int(midnight.astimezone(UTC).timestamp()) * 1000
