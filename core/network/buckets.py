"""Token buckets in one process, by name: a rate, saved up for a while. Pure but for its clock.

Memory is bounded: a full bucket is dropped, and beyond `names_max` the one that was longest unused is
forgotten, so a caller of many names costs no memory.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from core.clock import monotonic

NAMES_MAX = 20_000


@dataclass(frozen=True)
class Rate:
    """A rate, and the amount that may be saved up; a rate of zero is no limit."""

    per_second: float
    burst: float

    @staticmethod
    def a_second(most: float, saved_seconds: float = 10.0) -> "Rate":
        """A rate by the second, of which some seconds may be saved up, and one at least."""
        return Rate(most, max(1.0, most * saved_seconds))

    @staticmethod
    def a_minute(most: float) -> "Rate":
        """A rate by the minute, of which one minute may be saved up."""
        return Rate(most / 60, max(1.0, most))


class TokenBuckets:
    """One token bucket for each name."""

    def __init__(
        self, rate: Rate, names_max: int = NAMES_MAX, clock: Callable[[], float] = monotonic
    ) -> None:
        self._rate = rate
        self._names_max = names_max
        self._clock = clock
        self._whole_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Number of names remembered."""
        return len(self._whole_at)

    def take(self, name: str, cost: float = 1.0) -> int:
        """Take `cost` and return 0, or take nothing and return the milliseconds until there is enough. A cost
        above a whole bucket counts as a whole bucket."""
        rate = self._rate
        if rate.per_second <= 0:
            return 0
        now = self._clock()
        whole_at = max(now, self._whole_at.get(name, now))
        after = whole_at + min(cost, rate.burst) / rate.per_second
        missing = after - now - rate.burst / rate.per_second
        if missing > 1e-6:
            return max(1, math.ceil(missing * 1000 - 1e-3))
        self._whole_at[name] = after
        self._whole_at.move_to_end(name)
        if len(self._whole_at) > self._names_max:
            self._whole_at.popitem(last=False)
        return 0
