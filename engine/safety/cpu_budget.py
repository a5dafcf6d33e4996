"""A bound on the CPU that filtering one text may take: the last line behind what is refused when a policy is
saved. Pure but for the CPU clock.
"""

import time

SECONDS_MIN = 0.25  # of any text: automata are built while the first letters come
MICROSECONDS_A_BYTE = 100  # three levels may take 60 on the texts that they are tried with


class FilterTooDearError(Exception):
    """Filtering a text took more CPU than any may. The message has no text."""


class CpuBudget:
    """What one text has taken. It grows with the text."""

    def __init__(self) -> None:
        self._spent = 0.0

    def spend(self, began: float, size: int) -> None:
        """Note what was taken since `began`, of `thread_time`, when `size` bytes of the text are known.

        Raises FilterTooDearError.
        """
        self._spent += time.thread_time() - began
        if self._spent > SECONDS_MIN + size * MICROSECONDS_A_BYTE / 1e6:
            raise FilterTooDearError(f"{self._spent:.2f} s of CPU for {size:,} bytes")
