"""Ids of requests and conversations: UUIDv7 (RFC 9562, section 5.7)."""

import secrets
import time
import uuid

# Linux's and macOS' clocks that count sleep.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)


def now_ms() -> int:
    """Unix time in milliseconds, as this machine has it."""
    return time.time_ns() // 1_000_000


class GatewayClock:
    """The server's clock, carried on from `welcome.now` by a steady clock: this machine's own may be wrong,
    and may be set at any time. Before the first welcome it is this machine's."""

    def __init__(self) -> None:
        self._offset_ms = now_ms() - _steady_ms()

    def set(self, server_ms: int) -> None:
        """Go by what the server just said."""
        self._offset_ms = server_ms - _steady_ms()

    def now_ms(self) -> int:
        """Unix time in milliseconds, as the server has it."""
        return _steady_ms() + self._offset_ms


def _steady_ms() -> int:
    """Milliseconds of a clock that nobody sets, and that goes on while the machine sleeps, if it has one."""
    if _CLOCK is None:
        return time.monotonic_ns() // 1_000_000
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def uuid7(now_ms: int) -> str:
    """A new UUIDv7 in canonical lower-case text, made at `now_ms` (Unix milliseconds)."""
    bits = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return str(uuid.UUID(int=bits | 0b10 << 62 | secrets.randbits(62)))
