"""Time for shells, and the one place where tests put their own in. Deciding code takes `now` as an argument
instead."""

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol

LOOK_SECONDS_MAX = 0.5


class TimeSource(Protocol):
    """What tells the time: the machine, or a test's loop."""

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
    """Seconds that only rise, for how long something takes or lasts."""
    return _times.monotonic()


@contextmanager
def clock_from(times: TimeSource) -> Generator[None]:
    """Within the block it is so late as `times` says: for tests whose loop's time is their own."""
    global _times
    before, _times = _times, times
    try:
        yield
    finally:
        _times = before


class ServerClock:
    """A server's time, carried on between two looks at it by the monotonic clock. All processes agree on it,
    whatever their machines' clocks say or how they jump."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    async def set(self, look: Callable[[], Awaitable[int]]) -> None:
        """Ask the server for its time in ms. An answer that took long counts only where there is no other."""
        asked = monotonic()
        server_ms = await look()
        answered = monotonic()
        if self._offset_ms is None or answered - asked < LOOK_SECONDS_MAX:
            self._offset_ms = server_ms - (asked + answered) * 500

    def now_ms(self) -> int:
        """Unix time in milliseconds, as the server has it. `set` comes first."""
        assert self._offset_ms is not None
        return round(monotonic() * 1000 + self._offset_ms)
