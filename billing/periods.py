"""Days, weeks and months in a tenant's time zone, as intervals of Unix milliseconds. Pure.

A window begins at the first instant of its local date, even where clocks change: every instant is in exactly
one window of a kind, and the end of one is the start of the next. Closed months never change, whichever zone
the tenant takes later; the first open one begins at the end of the last closed one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from core.errors import Refused, bad_request

HOUR_MS = 3_600_000
AHEAD_MS_MAX = 397 * 24 * HOUR_MS  # any 13 months: commands ask before they take a later start
FIRST_MS = 0
DATE_CHARS = len("2026-10-01")
MONTH = re.compile(r"(\d{4})-(\d{1,2})", re.ASCII)
SPAN = re.compile(r"(?P<number>\d{1,12})(?P<unit>ms|s|m|h|d)", re.ASCII)
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR_MS, "d": 24 * HOUR_MS}
SPAN_MS_MAX = 1_000 * UNITS_MS["d"]
UTC_ZONE = ZoneInfo("UTC")
OUTSIDE = "the time is outside the years 1970 to 9998"
LAST_MS = 253_370_764_800_000  # 9999-01-01: later local dates have no next one


class Period(StrEnum):
    """Length of a window. `lifetime` has one, from the beginning to the end of time."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    LIFETIME = "lifetime"


class PeriodWindow(NamedTuple):
    """From `start_ms` up to, not including, `end_ms`."""

    start_ms: int
    end_ms: int


class ClosedMonth(NamedTuple):
    """Window and zone of a month at its close."""

    window: PeriodWindow
    zone: ZoneInfo


@dataclass(frozen=True)
class Calendar:
    """A tenant's months. Their numbers are 12 times the year plus the month, from 0. `zone`: of open months.
    Each month begins where the one before it ends."""

    zone: ZoneInfo
    closed: Mapping[int, ClosedMonth] = field(default_factory=dict[int, ClosedMonth])

    def month_at(self, at_ms: int) -> int:
        """The month that an instant is in. Raises ValueError outside the years 1970 to 9998."""
        if not FIRST_MS <= at_ms < LAST_MS:
            raise ValueError(OUTSIDE)
        today = datetime.fromtimestamp(at_ms / 1000, UTC)
        number = month_number(today.year, today.month)
        while at_ms < self._start_ms(number):
            number -= 1
        while at_ms >= self._start_ms(number + 1):
            number += 1
        return number

    def window(self, number: int) -> PeriodWindow:
        """Window of a month. Raises ValueError outside the years 1970 to 9998."""
        window = PeriodWindow(self._start_ms(number), self._start_ms(number + 1))
        if window.end_ms <= FIRST_MS or window.start_ms >= LAST_MS:
            raise ValueError(OUTSIDE)
        return window

    def zone_of(self, number: int) -> ZoneInfo:
        """Zone of a month's days. Months before all closed ones have the zone of the first."""
        closed = self.closed.get(max(number, min(self.closed, default=number)))
        return closed.zone if closed else self.zone

    def day_at(self, at_ms: int) -> PeriodWindow:
        """The day that an instant is in, cut to the instant's month, so that days add up to months."""
        month = self.month_at(at_ms)
        day, whole = window_at(Period.DAY, self.zone_of(month), at_ms), self.window(month)
        return PeriodWindow(max(day.start_ms, whole.start_ms), min(day.end_ms, whole.end_ms))

    def _start_ms(self, number: int) -> int:
        if number - 1 in self.closed:
            return self.closed[number - 1].window.end_ms
        if number in self.closed:
            return self.closed[number].window.start_ms
        year, month = divmod(number, 12)
        return _midnight_ms(date(year, month + 1, 1), self.zone_of(number))


def month_number(year: int, month: int) -> int:
    """Number of a month (from 1) of a year; consecutive months have consecutive numbers."""
    return year * 12 + month - 1


def month_text(number: int) -> str:
    """`2026-10`."""
    return f"{number // 12:04}-{number % 12 + 1:02}"


def month_of(text: str) -> int:
    """Number of the month written as 2026-10. Raises ValueError. Pure."""
    match = MONTH.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise ValueError("other digits, or more")
    return month_number(int(match[1]), int(match[2]))


def window_of_month(text: str, calendar: Calendar, field: str | None = None) -> PeriodWindow:
    """Window of the month written as 2026-10. Raises Refused (of the field). Pure."""
    try:
        return calendar.window(month_of(text))
    except (ValueError, OverflowError) as error:
        raise bad_request(f"{text!r} is no month: write it like 2026-10", field=field) from error


def window_of_day(text: str, calendar: Calendar, field: str | None = None) -> PeriodWindow:
    """Window of the day written as 2026-10-01, in the zone of its month. The first day of a month begins with
    it, also after a move to another zone. Raises Refused (of the field). Pure."""
    try:
        day = date.fromisoformat(text)
        month = month_number(day.year, day.month)
        first_ms = calendar.window(month).start_ms
        found = calendar.day_at(max(_midnight_ms(day, calendar.zone_of(month)), first_ms))
        return PeriodWindow(first_ms, found.end_ms) if day.day == 1 else found
    except (ValueError, OverflowError) as error:
        raise bad_request(f"{text!r} is no day: write it like 2026-10-01", field=field) from error


def zone_named(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises ValueError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone: use an IANA name like Europe/Berlin") from error


def window_at(period: Period, zone: ZoneInfo, at_ms: int) -> PeriodWindow:
    """The window that an instant is in. Weeks begin on Monday (ISO 8601).

    Raises ValueError outside the years 1970 to 9998."""
    if not FIRST_MS <= at_ms < LAST_MS:
        raise ValueError(OUTSIDE)
    if period is Period.LIFETIME:
        return PeriodWindow(FIRST_MS, LAST_MS)
    today = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()
    first = _first_day(period, today)
    # Where midnight happens twice, the instant may lie before its date's start: it is the day before's.
    start = _midnight_ms(first, zone)
    if at_ms < start:
        first = _first_day(period, first - timedelta(days=1))
        start = _midnight_ms(first, zone)
    return PeriodWindow(start, _midnight_ms(_next_first(period, first), zone))


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


def local_instant(text: str, zone: ZoneInfo, field: str | None = None) -> int:
    """Parse Unix ms of an ISO 8601 date or time, by default in this zone; a date is its day's beginning.
    Raises Refused (of the field), also for a local time that the zone's clocks skip or show twice. Pure."""
    try:
        at = datetime.fromisoformat(text)
        local = at if at.tzinfo else at.replace(tzinfo=zone)
        if local.tzinfo is zone and len(text) > DATE_CHARS:
            _check_once(text, local, field)
        return int(local.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        message = f"{text!r} is no time: write it like 2026-10-01 or 2026-10-01T12:00:00+02:00"
        raise bad_request(message, field=field) from error


def duration_ms(text: str) -> int | None:
    """Parse milliseconds from a text like `2s`, at most 1000 days; None where it is invalid. Pure."""
    match = SPAN.fullmatch(text)
    ms = int(match["number"]) * UNITS_MS[match["unit"]] if match else SPAN_MS_MAX + 1
    return ms if ms <= SPAN_MS_MAX else None


def instant_or_ago(text: str, zone: ZoneInfo, now: int, field: str | None = None) -> int:
    """Parse Unix ms of a time, or of a span before now like `2h`. Raises Refused (of the field). Pure."""
    ago = duration_ms(text)
    try:
        at = now - ago if ago is not None else local_instant(text, zone)
    except Refused as refused:
        raise bad_request(f"{refused.refusal.message}, or like 2h: so long ago", field=field) from refused
    if not FIRST_MS <= at <= LAST_MS:
        raise bad_request(f"{text!r} is before 1970 or after 9998", field=field)
    return at


def _check_once(text: str, local: datetime, field: str | None) -> None:
    """Raises Refused for a local time that clocks skip or show twice there."""
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    if first is not None and second is not None and first != second:
        what = "is no time" if first < second else "is two times"
        zone = getattr(local.tzinfo, "key", "")
        raise bad_request(
            f"{text!r} {what} in {zone}, where clocks change: write it with its offset, +02:00", field=field
        )
