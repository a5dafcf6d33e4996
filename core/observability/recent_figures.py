"""The last minutes' figures of all processes, read from what they added up. Pure.

A percentile is interpolated within its bucket, as Prometheus' histogram_quantile does: it is exact to the
width of that bucket, and in the bucket above all bounds it is the last bound.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from core.observability.request_figures import BOUNDS_MS, CLASSES, FAULTS, LEVELS, OVER, TOKENS

MINUTE_MS = 60_000
FIELD_NAMES_MAX = 8_192  # that are remembered; more are none of ours
NAME_BYTES_MAX = 200
COUNT_MAX = 1 << 53


@dataclass(frozen=True)
class Percentiles:
    """Percentiles in seconds, None where nothing was observed, and the number of observations."""

    p50: float | None
    p95: float | None
    p99: float | None
    count: int


@dataclass(frozen=True)
class FigureMinute:
    """One minute of all processes. `buckets`: by metric and class, a count for each bucket; `ended`: by class
    and outcome; `levels`: by level and pool, the sum of its samples; `samples`: their number by pool."""

    buckets: dict[tuple[str, str], list[int]] = field(default_factory=dict[tuple[str, str], list[int]])
    ended: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    tokens: Counter[str] = field(default_factory=Counter[str])
    levels: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    samples: Counter[str] = field(default_factory=Counter[str])

    def add(self, name: bytes, count: int) -> bool:
        """Add one field of a minute's hash. False for what is none of ours: another process may have written
        it."""
        parsed = _parsed(name) if len(name) <= NAME_BYTES_MAX else None
        if parsed is None or not 0 <= count <= COUNT_MAX:
            return False
        kind, of, at = parsed
        if kind == "bucket":
            metric, priority = of
            counts = self.buckets.setdefault((metric, priority), [0] * (len(BOUNDS_MS[metric]) + 1))
            counts[at] += count
        elif kind == "ended":
            self.ended[of] += count
        elif kind == "level":
            self.levels[of] += count
        else:
            (self.samples if kind == "sampled" else self.tokens)[of[0]] += count
        return True


@dataclass(frozen=True)
class RecentFigures:
    """Minutes, oldest first, by the Unix ms at which each begins; the last one is still going on, and
    `now_ms` is in it.

    A figure of that last minute is of the whole minute before it as well: what has passed of it may be a
    second, and processes tell what they saw some seconds later.
    """

    minutes: tuple[int, ...]
    now_ms: int
    found: tuple[FigureMinute, ...]

    def percentiles(self, metric: str, priority: str | None = None, last_minutes: int = 5) -> Percentiles:
        """Percentiles over the last minutes, the one that goes on included; of all classes, or of one."""
        counts = self._counts(metric, priority, self.found[-last_minutes:])
        p50, p95, p99 = (quantile(BOUNDS_MS[metric], counts, q) for q in (0.5, 0.95, 0.99))
        return Percentiles(p50, p95, p99, sum(counts))

    def series(self, metric: str, p: float = 0.95, priority: str | None = None) -> list[float | None]:
        """A percentile in seconds for each minute, None where nothing was observed."""
        bounds = BOUNDS_MS[metric]
        return self._each(lambda some: quantile(bounds, self._counts(metric, priority, some), p))

    def rate(self, tokens: str) -> list[float]:
        """Tokens (one of TOKENS) a second, for each minute."""
        rates = [minute.tokens[tokens] / 60 for minute in self.found]
        passed = (self.now_ms - self.minutes[-1]) / 1000
        counted = sum(minute.tokens[tokens] for minute in self.found[-2:])
        return [*rates[:-1], counted / (passed + 60 * (len(self.found[-2:]) - 1) or 1)]

    def ended(self, outcomes: Collection[str] | None = None, priority: str | None = None) -> list[int]:
        """Ends with one of these outcomes, or with any, for each minute; of the last only what has passed."""
        return [_ends(minute, outcomes, priority) for minute in self.found]

    def faults(self) -> list[float | None]:
        """The share of ends that are the platform's own fault, for each minute; None where nothing ended."""

        def share(some: Sequence[FigureMinute]) -> float | None:
            every = sum(_ends(minute, None, None) for minute in some)
            return sum(_ends(minute, FAULTS, None) for minute in some) / every if every else None

        return self._each(share)

    def levels(self, level: str, pool: str | None = None) -> list[float | None]:
        """The mean of a level's samples for each minute, summed over pools, or of one: `running`, `slots`,
        `waiting`, or `waiting.CLASS`. None where nobody took a sample."""
        names = [name for name in LEVELS if level in (name, name.partition(".")[0])]

        def mean(some: Sequence[FigureMinute]) -> float | None:
            samples = sum((minute.samples for minute in some), Counter[str]())
            pools = [each for each, count in samples.items() if count and pool in (None, each)]
            sums = [
                sum(minute.levels[name, each] for minute in some for name in names) / samples[each]
                for each in pools
            ]
            return sum(sums) if sums else None

        return self._each(mean)

    def _each(self, of: Callable[[Sequence[FigureMinute]], float | None]) -> list[float | None]:
        """One value a minute; the last of the two last."""
        return [*(of([minute]) for minute in self.found[:-1]), of(self.found[-2:])]

    def _counts(self, metric: str, priority: str | None, some: Sequence[FigureMinute]) -> list[int]:
        nothing = [0] * (len(BOUNDS_MS[metric]) + 1)
        rows = [
            minute.buckets.get((metric, each), nothing)
            for minute in some
            for each in CLASSES
            if priority in (None, each)
        ]
        return [sum(column) for column in zip(nothing, *rows, strict=True)]


def quantile(bounds_ms: Sequence[int], counts: Sequence[int], q: float) -> float | None:
    """The q-quantile in seconds of what a histogram counted; None of nothing."""
    rank, below = q * sum(counts), 0
    if not any(counts):
        return None
    for at, count in enumerate(counts[:-1]):
        if count and below + count >= rank:
            start = bounds_ms[at - 1] if at else 0
            return (start + (bounds_ms[at] - start) * (rank - below) / count) / 1000
        below += count
    return bounds_ms[-1] / 1000


def figure_minute(fields: Mapping[bytes, bytes], number: Callable[[bytes], int]) -> tuple[FigureMinute, int]:
    """A minute by its hash, and how many of its fields are none of ours."""
    minute = FigureMinute()
    return minute, sum(not minute.add(name, number(value)) for name, value in fields.items())


def _ends(minute: FigureMinute, outcomes: Collection[str] | None, priority: str | None) -> int:
    return sum(
        count
        for (of, outcome), count in minute.ended.items()
        if priority in (None, of) and (outcomes is None or outcome in outcomes)
    )


@lru_cache(FIELD_NAMES_MAX)
def _parsed(name: bytes) -> tuple[str, tuple[str, str], int] | None:
    """What a field counts: its kind, of what, and in which bucket."""
    kind, _, rest = name.decode(errors="replace").partition(":")
    of, _, last = rest.partition(":")
    if kind in BOUNDS_MS and of in CLASSES:
        at = _bucket(BOUNDS_MS[kind], last)
        return None if at is None else ("bucket", (kind, of), at)
    if kind == "ended" and of in CLASSES and last:
        return "ended", (of, last), 0
    if kind == "level" and of in LEVELS and last:
        return "level", (of, last), 0
    if kind == "sampled" and rest:
        return "sampled", (rest, ""), 0
    return ("tokens", (kind, ""), 0) if kind in TOKENS and not rest else None


def _bucket(bounds: Sequence[int], bound: str) -> int | None:
    """The bucket of a bound, which another release may have set: the first that reaches it."""
    if bound == OVER:
        return len(bounds)
    if not (bound.isascii() and bound.isdigit() and len(bound) < 10):
        return None
    return next((at for at, mine in enumerate(bounds) if mine >= int(bound)), len(bounds))
