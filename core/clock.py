"""Time for code that does I/O, and the one place where tests replace it. Deciding code takes `now` as an
argument instead."""

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

LOOK_SECONDS_MAX = 0.5
CALENDAR_MS_MAX = 253_402_300_799_999  # the last of the year 9999: Python shows none beyond


class TimeSource(Protocol):
    """A source of time: this machine's clocks, or a test's event loop."""

    def time_ns(self) -> int:
        """Unix time in nanoseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that only rise."""
        ...


_times: TimeSource = time


def now_ms() -> int:
    """Unix time in milliseconds, as this machine has it."""
    return _times.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds that only rise, to measure durations."""
    return _times.monotonic()


@contextmanager
def clock_from(times: TimeSource) -> Generator[None]:
    """Take the time from `times` within the block: for tests with a clock of their own."""
    global _times
    before, _times = _times, times
    try:
        yield
    finally:
        _times = before


class ServerClock:
    """A server's time, carried on by the monotonic clock between two readings. All processes agree on it,
    whatever their machines' clocks show."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    async def set(self, look: Callable[[], Awaitable[int]]) -> None:
        """Ask the server for its time in ms. A slow answer counts only where there is none yet."""
        asked = monotonic()
        server_ms = await look()
        answered = monotonic()
        if self._offset_ms is None or answered - asked < LOOK_SECONDS_MAX:
            self._offset_ms = server_ms - (asked + answered) * 500

    def now_ms(self) -> int:
        """Unix time in milliseconds, as the server has it. `set` comes first."""
        assert self._offset_ms is not None
        return round(monotonic() * 1000 + self._offset_ms)


def iso_time(unix_ms: int | None) -> str | None:
    """Unix ms as ISO 8601 in UTC, without fractions; None beyond the calendar."""
    if unix_ms is None or not 0 <= unix_ms <= CALENDAR_MS_MAX:
        return None
    return datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat()
