"""A bound on the CPU that filtering one text may take: the last line behind what is refused when a policy is
saved. Pure but for the clocks.
"""

import time

SECONDS_MIN = 0.25  # of any text: automata are built while the first letters come
MICROSECONDS_A_BYTE = 100  # three levels may take 60 on the texts that they are tried with
CHEAP_CLOCK = time.perf_counter  # counts no less than the CPU that is taken, and is read ten times as fast


class FilterTooDearError(Exception):
    """Filtering a text took more CPU than any may. The message has no text."""


class CpuBudget:
    """What one text has taken. It grows with the text. CPU is counted once the cheap clock has shown as much;
    what was taken before that is let go."""

    def __init__(self) -> None:
        self.clock = CHEAP_CLOCK
        self._spent = 0.0
        self._from = 0

    def spend(self, began: float, size: int) -> None:
        """Note what was taken since `began`, by `clock`, when `size` bytes of the text are known. Raises
        FilterTooDearError."""
        self._spent += self.clock() - began
        if self._spent <= SECONDS_MIN + (size - self._from) * MICROSECONDS_A_BYTE / 1e6:
            return
        if self.clock is time.thread_time:
            raise FilterTooDearError(f"{self._spent:.2f} s of CPU for {size - self._from:,} bytes")
        self.clock, self._spent, self._from = time.thread_time, 0.0, size
