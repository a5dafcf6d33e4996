"""Months as operators write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from billing.periods import Period, Window, window_at
from core.errors import StartupError

MONTHS_MAX = 120


def month_window(text: str | None, zone: ZoneInfo, now: int) -> Window:
    """The month written as 2026-10; None: the last one that is over. Raises StartupError."""
    if text is None:
        return window_at(Period.MONTH, zone, window_at(Period.MONTH, zone, now).start_ms - 1)
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=zone)
        return window_at(Period.MONTH, zone, int(first.astimezone(UTC).timestamp() * 1000))
    except ValueError as error:
        raise StartupError(f"{text!r} is no month: write it like 2026-10") from error


def months_from(text: str | None, count: int, zone: ZoneInfo, now: int) -> Window:
    """`count` months from the one written on, by default the one that is. Raises StartupError."""
    first = month_window(text, zone, now) if text else window_at(Period.MONTH, zone, now)
    end = first.end_ms
    for _ in range(count - 1):
        end = window_at(Period.MONTH, zone, end).end_ms
    return Window(first.start_ms, end)


def month_name(window: Window, zone: ZoneInfo) -> str:
    """`2026-10`."""
    middle = (window.start_ms + window.end_ms) // 2
    return f"{datetime.fromtimestamp(middle / 1000, zone):%Y-%m}"
