"""A clock that only the test moves."""

from collections.abc import Generator
from contextlib import contextmanager

from core import clock

BEGAN_MS = 1_780_000_000_000


class StubClock:
    """What time it is, of day and since a start, in ms."""

    def __init__(self) -> None:
        self.ms = BEGAN_MS

    def time_ns(self) -> int:
        """See core.clock.Times."""
        return self.ms * 1_000_000

    def monotonic(self) -> float:
        """See core.clock.Times."""
        return self.ms / 1000


@contextmanager
def watch_in_hand() -> Generator[StubClock]:
    """The product's time, as long as the block lasts."""
    watch = StubClock()
    with clock.clock_from(watch):
        yield watch
