"""Which time a day or month is compared with: the same weekday before, the month before. Pure.

What is not over is compared only as far as it is: a day up to the last full hour, a month up to today, each
with as much of the time before.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from billing.periods import (
    HOUR_MS,
    Calendar,
    PeriodWindow,
    month_of,
    month_text,
    window_of_day,
    window_of_month,
)
from core.errors import bad_request

WEEK = timedelta(days=7)


@dataclass(frozen=True)
class ComparedTimes:
    """A day or month (its date, or month as text) and the one before it, as far as they are compared. `over`:
    it has ended."""

    name: str
    window: PeriodWindow
    before_name: str
    before: PeriodWindow
    over: bool


def times_of_day(text: str, calendar: Calendar, now_ms: int) -> ComparedTimes:
    """A day, by default yesterday, and the same weekday before. Raises Refused."""
    if text:
        window = window_of_day(text, calendar, "day")
    else:
        window = calendar.day_at(calendar.day_at(now_ms).start_ms - 1)
    if window.start_ms > now_ms:
        today = _date_of(calendar.day_at(now_ms), calendar)
        raise bad_request(f"{text} has not begun: the newest day is {today}", field="day")
    day = _date_of(window, calendar)
    earlier = (day - WEEK).isoformat()
    before, over = window_of_day(earlier, calendar, "day"), window.end_ms <= now_ms
    if not over:
        window = PeriodWindow(window.start_ms, _full_hours(window.start_ms, now_ms))
        before = _as_long(before, window)
    return ComparedTimes(day.isoformat(), window, earlier, before, over)


def times_of_month(text: str, calendar: Calendar, now_ms: int) -> ComparedTimes:
    """A month and the one before. Raises Refused."""
    window = window_of_month(text, calendar, "month")
    if window.start_ms > now_ms:
        newest = month_text(calendar.month_at(now_ms))
        raise bad_request(f"{text} has not begun: the newest month is {newest}", field="month")
    number = month_of(text)
    before, over = calendar.window(number - 1), window.end_ms <= now_ms
    if not over:
        today = calendar.day_at(now_ms)
        if today.start_ms > window.start_ms:
            window = PeriodWindow(window.start_ms, today.start_ms)
            before = _up_to(before, _date_of(today, calendar).day, calendar)
        else:
            window = PeriodWindow(window.start_ms, _full_hours(window.start_ms, now_ms))
            before = _as_long(before, window)
    return ComparedTimes(month_text(number), window, month_text(number - 1), before, over)


def hours_of(window: PeriodWindow, zone: ZoneInfo) -> dict[str, PeriodWindow]:
    """The hours of UTC's in a day, cut to it, by the local time at which each begins: `02:00`, and
    `02:00 again` where clocks are turned back."""
    found: dict[str, PeriodWindow] = {}
    at = window.start_ms
    while at < window.end_ms:
        end = min(at - at % HOUR_MS + HOUR_MS, window.end_ms)
        local = f"{datetime.fromtimestamp(at / 1000, zone):%H:%M}"
        found[f"{local} again" if local in found else local] = PeriodWindow(at, end)
        at = end
    return found


def days_of(window: PeriodWindow, calendar: Calendar) -> dict[str, PeriodWindow]:
    """The days of a month, cut to it, by their number: `01`."""
    found: dict[str, PeriodWindow] = {}
    at = window.start_ms
    while at < window.end_ms:
        day = calendar.day_at(at)
        name = f"{_date_of(day, calendar).day:02}"
        before = found.get(name, PeriodWindow(day.start_ms, day.start_ms))
        found[name] = PeriodWindow(before.start_ms, min(day.end_ms, window.end_ms))
        at = day.end_ms
    return found


def _date_of(window: PeriodWindow, calendar: Calendar) -> date:
    zone = calendar.zone_of(calendar.month_at(window.start_ms))
    return datetime.fromtimestamp(window.start_ms / 1000, zone).date()


def _full_hours(start_ms: int, now_ms: int) -> int:
    """The end of the last full hour since a start; in the first one now, and never nothing."""
    full_ms = now_ms - now_ms % HOUR_MS
    return full_ms if full_ms > start_ms else max(now_ms, start_ms + 1)


def _as_long(before: PeriodWindow, window: PeriodWindow) -> PeriodWindow:
    lasted_ms = window.end_ms - window.start_ms
    return PeriodWindow(before.start_ms, min(before.end_ms, before.start_ms + lasted_ms))


def _up_to(month: PeriodWindow, day: int, calendar: Calendar) -> PeriodWindow:
    """The part of a month before this day of it."""
    first = _date_of(month, calendar)
    until = first + timedelta(days=day - 1)
    if until.month != first.month:
        return month
    at_ms = window_of_day(until.isoformat(), calendar).start_ms
    return PeriodWindow(month.start_ms, min(month.end_ms, at_ms))
