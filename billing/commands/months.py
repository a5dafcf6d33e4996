"""Months as operators write them."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from billing.periods import Period, Window, window_at
from billing.periods import month_name as month_name
from core.errors import StartupError

MONTHS_MAX = 120
MONTH = re.compile(r"\d{4}-\d{1,2}", re.ASCII)


def month_window(text: str | None, zone: ZoneInfo, now: int) -> Window:
    """The month written as 2026-10; None: the last one that is over. Raises StartupError."""
    if text is None:
        return window_at(Period.MONTH, zone, window_at(Period.MONTH, zone, now).start_ms - 1)
    try:
        if MONTH.fullmatch(text) is None:
            raise ValueError("other digits, or more")
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=zone)
        return window_at(Period.MONTH, zone, int(first.astimezone(UTC).timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise StartupError(f"{text!r} is no month: write it like 2026-10") from error


def months_from(text: str | None, count: int, zone: ZoneInfo, now: int) -> Window:
    """`count` months from the one written on, by default the one that is. Raises StartupError."""
    first = window_at(Period.MONTH, zone, now) if text is None else month_window(text, zone, now)
    end = first.end_ms
    try:
        for _ in range(count - 1):
            end = window_at(Period.MONTH, zone, end).end_ms
    except ValueError as error:
        raise StartupError(f"{text!r} is no month for {count} months to begin with: {error}") from error
    return Window(first.start_ms, end)


def months_in(window: Window, zone: ZoneInfo) -> int:
    """How many months begin in a window."""
    count, at = 0, window.start_ms
    while at < window.end_ms:
        count, at = count + 1, window_at(Period.MONTH, zone, at).end_ms
    return count
