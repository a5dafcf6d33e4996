"""Parsing and formatting of months on the command line."""

from billing.periods import Calendar, PeriodWindow, month_text, window_of_month
from core.errors import Refused, StartupError

MONTHS_MAX = 120
HALF_MS = 14 * 86_400_000  # of the shortest month


def month_window(text: str | None, calendar: Calendar, now: int) -> PeriodWindow:
    """Window of the month written as 2026-10; None: the last one that is over. Raises StartupError."""
    if text is None:
        return calendar.window(calendar.month_at(now) - 1)
    try:
        return window_of_month(text, calendar)
    except Refused as refused:
        raise StartupError(refused.refusal.message) from refused


def months_from(text: str | None, count: int, calendar: Calendar, now: int) -> PeriodWindow:
    """Window of `count` months from the written one on, by default the present one. Raises StartupError."""
    running = calendar.window(calendar.month_at(now))
    first = running if text is None else month_window(text, calendar, now)
    try:
        last = calendar.window(calendar.month_at(first.start_ms) + count - 1)
    except ValueError as error:
        raise StartupError(f"{text!r} is no month for {count} months to begin with: {error}") from error
    return PeriodWindow(first.start_ms, last.end_ms)


def months_in(window: PeriodWindow, calendar: Calendar) -> int:
    """Number of months in a window. Its ends were those of months when it was made: in another zone they may
    be some hours off."""
    if window.end_ms <= window.start_ms:
        return 0
    return calendar.month_at(window.end_ms - HALF_MS) - calendar.month_at(window.start_ms + HALF_MS) + 1


def month_name(window: PeriodWindow, calendar: Calendar) -> str:
    """`2026-10`: the month, or the first of several."""
    return month_text(calendar.month_at(window.start_ms + HALF_MS))


def last_month_name(window: PeriodWindow, calendar: Calendar) -> str:
    """`2026-10`: the last of several months."""
    return month_text(calendar.month_at(window.end_ms - HALF_MS))
