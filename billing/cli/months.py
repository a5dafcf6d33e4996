"""Parsing and formatting of months on the command line."""

import re

from billing.periods import Calendar, PeriodWindow, month_number, month_text
from core.errors import StartupError

MONTHS_MAX = 120
MONTH = re.compile(r"(\d{4})-(\d{1,2})", re.ASCII)
HALF_MS = 14 * 86_400_000  # of the shortest month


def month_window(text: str | None, calendar: Calendar, now: int) -> PeriodWindow:
    """Window of the month written as 2026-10; None: the last one that is over. Raises StartupError."""
    if text is None:
        return calendar.window(calendar.month_at(now) - 1)
    try:
        return calendar.window(month_of(text))
    except (ValueError, OverflowError) as error:
        raise StartupError(f"{text!r} is no month: write it like 2026-10") from error


def month_of(text: str) -> int:
    """Number of the month written as 2026-10. Raises ValueError."""
    match = MONTH.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise ValueError("other digits, or more")
    return month_number(int(match[1]), int(match[2]))


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
