"""Figures of requests as one process has seen them: how long they took, how they ended, tokens, levels.

Counted in memory, where an observation costs a fraction of a microsecond; served as histograms at /metrics,
and added to the minutes in Redis that the console reads (core/redis/figure_minutes.py). No label is an id.
Pure, but for `FIGURES`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

CLASSES = ("interactive", "standard", "bulk")
OVER = "over"  # the bucket above the last bound

# Upper bounds of buckets in ms. A goal or an alert may stand at any of them: 1 s between tokens is a stall.
BOUNDS_MS: Mapping[str, tuple[int, ...]] = {
    "queue_wait": (
        *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000),
        *(30_000, 60_000, 120_000, 300_000, 1_800_000, 7_200_000),
    ),
    "first_token": (
        *(10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 1_500, 2_500, 5_000, 10_000, 20_000),
        *(30_000, 60_000, 120_000, 300_000, 1_800_000, 7_200_000),
    ),
    "between_tokens": (
        *(5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100, 150, 200, 300, 500, 750, 1_000, 2_500, 5_000),
        *(10_000, 30_000),
    ),
    "duration": (
        *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000),
        *(1_800_000, 7_200_000),
    ),
}
TOKENS = ("input_tokens", "output_tokens")
LEVELS = ("running", "slots", *(f"waiting.{priority}" for priority in CLASSES))
# What an end counts under: its reason, of an error its code. No other code is a label.
ERROR_CODES = ("bad_request", "engine_lost", "internal")
FAULTS = ("engine_lost", "internal", "error")  # outcomes that are the platform's own


CLAIMED = "claimed"  # the outcome of a wait that no end cut short


def outcome_of(reason: str, code: str) -> str:
    """The outcome that an end counts under."""
    return code if reason == "error" and code in ERROR_CODES else reason


def known_class(priority: str) -> str:
    """A class; the first, as of requests that name none, for what is none."""
    return priority if priority in CLASSES else CLASSES[0]


class FigureSeries:
    """One histogram: counts by bucket, the last above all bounds, and the sum of what was observed."""

    __slots__ = ("bounds", "counts", "sum_ms")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_ms = 0

    def observe(self, ms: int, number: int = 1) -> None:
        """Count so many of it; what is below zero, as clocks differ, counts as none."""
        self.counts[bisect_left(self.bounds, ms)] += number
        self.sum_ms += max(0, ms) * number


class RequestFigures:
    """All figures of a process since its start, and which of them were taken."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str], FigureSeries] = {}
        self._counted: Counter[str] = Counter()  # by field, of what has no histogram
        self._taken: dict[str, int] = {}

    def series(self, metric: str, priority: str, outcome: str = "") -> FigureSeries:
        """The histogram of a metric for a class; of a wait and a duration for an outcome, too."""
        key = metric, known_class(priority), outcome
        if (series := self._series.get(key)) is None:
            series = self._series[key] = FigureSeries(BOUNDS_MS[metric])
        return series

    def ended(self, priority: str, outcome: str, ms: int) -> None:
        """Count an end, `ms` after the request was accepted."""
        self.series("duration", priority, outcome).observe(ms)
        self._counted[f"ended:{known_class(priority)}:{outcome}"] += 1

    def add(self, tokens: str, number: int) -> None:
        """Count tokens, of one of TOKENS."""
        self._counted[tokens] += number

    def sample(self, pool: str, levels: Mapping[str, int]) -> None:
        """Count one sample of a pool's LEVELS. Of several in a minute, by whichever process, the mean is
        shown."""
        for level, value in levels.items():
            self._counted[f"level:{level}:{pool}"] += value
        self._counted[f"sampled:{pool}"] += 1

    def shown(self) -> dict[tuple[str, str, str], FigureSeries]:
        """Histograms by metric, class and outcome, for a page; another thread may ask."""
        return dict(self._series)

    def take(self) -> dict[str, int]:
        """What was counted since the last call, by its field in Redis. There a wait and a duration are of a
        class only: `ended` has the outcomes."""
        fields = Counter(self._counted)
        for (metric, priority, _), series in self._series.items():
            for bound, count in zip((*series.bounds, OVER), series.counts, strict=True):
                if count:
                    fields[f"{metric}:{priority}:{bound}"] += count
        before, self._taken = self._taken, dict(fields)
        return {field: n for field, count in fields.items() if (n := count - before.get(field, 0))}


FIGURES = RequestFigures()
