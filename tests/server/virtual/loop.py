"""An event loop whose time leaps to what is due next: hours of product clocks pass in milliseconds, and no
pause of the machine is seen. Nothing outside the process may be waited for in it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from core import clock

T = TypeVar("T")
EPOCH_NS = 1_780_000_000 * 1_000_000_000
TURNS_MAX = 50_000
BEGAN_SECONDS = 1000.0


class Stuck(AssertionError):  # noqa: N818  (a finding of the test's, not an error of the loop's)
    """It would never end."""


class _Leaps(selectors.SelectSelector):
    """Nothing comes from outside: where the loop would sleep, its time moves on."""

    passed = 0.0
    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            self.turns += 1
            if self.turns > TURNS_MAX:
                self.turns = 0
                raise Stuck("something goes on and on, and no time passes")
            return ready
        if timeout is None:
            raise Stuck("everybody waits, and nothing is due")
        self.passed, self.turns = self.passed + timeout, 0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time begins at BEGAN_SECONDS. It tells the time of day, too."""

    leaps = True  # for tests/support/patience.py

    def __init__(self) -> None:
        self._leaps = _Leaps()
        super().__init__(self._leaps)

    def time(self) -> float:
        """What the test lived."""
        return BEGAN_SECONDS + self._leaps.passed

    def monotonic(self) -> float:
        """See core.clock.Times."""
        return self.time()

    def time_ns(self) -> int:
        """See core.clock.Times."""
        return EPOCH_NS + int(self.time() * 1e9)


def played(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in virtual time, and end what it left."""
    loop = VirtualLoop()
    with clock.clock_from(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


async def passing(seconds: float) -> None:
    """So long, in virtual time."""
    await asyncio.sleep(seconds)


def passed() -> float:
    """Seconds since the loop began."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.time() - BEGAN_SECONDS
