"""Time for shells. Deciding code takes `now` as an argument instead."""

import time
from collections.abc import Awaitable, Callable

LOOK_SECONDS_MAX = 0.5


def now_ms() -> int:
    """Unix time in milliseconds, as this machine has it."""
    return time.time_ns() // 1_000_000


class ServerClock:
    """A server's time, carried on between two looks at it by the monotonic clock. All processes agree on it,
    whatever their machines' clocks say or how they jump."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    async def set(self, look: Callable[[], Awaitable[int]]) -> None:
        """Ask the server for its time in ms. An answer that took long counts only where there is no other."""
        asked = time.monotonic()
        server_ms = await look()
        answered = time.monotonic()
        if self._offset_ms is None or answered - asked < LOOK_SECONDS_MAX:
            self._offset_ms = server_ms - (asked + answered) * 500

    def now_ms(self) -> int:
        """Unix time in milliseconds, as the server has it. `set` comes first."""
        assert self._offset_ms is not None
        return round(time.monotonic() * 1000 + self._offset_ms)
