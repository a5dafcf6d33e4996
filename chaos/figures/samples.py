"""What a load run measured and the figures made of it. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Sample:
    """One streamed answer: seconds on one monotonic clock, and the tokens that came with each arrival."""

    started: float
    arrivals: tuple[tuple[float, int], ...]

    @property
    def tokens(self) -> int:
        """Tokens received."""
        return sum(count for _, count in self.arrivals)

    @property
    def ttft_seconds(self) -> float:
        """Seconds from sending the request to its first token."""
        return self.arrivals[0][0] - self.started

    def gaps_seconds(self) -> list[float]:
        """Seconds per token after the first: an arrival of k tokens counts k gaps of a k-th each."""
        gaps: list[float] = []
        for (before, _), (at, count) in zip(self.arrivals, self.arrivals[1:], strict=False):
            gaps.extend([(at - before) / count] * count)
        return gaps


@dataclass(frozen=True)
class Figures:
    """One level of concurrency on one target. Times in milliseconds."""

    tokens_per_second: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    gap_p50_ms: float
    gap_p99_ms: float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that this share of them does not exceed (nearest rank): p95 of 20 is the
    19th, p50 of 4 the second; 0 for no values."""
    ordered = sorted(values)
    rank = ceil(round(share * len(ordered), 6))  # 0.07 * 100 is a little more than 7
    return ordered[max(rank, 1) - 1] if ordered else 0.0


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Between which of the sorted values the median lies with CONFIDENCE, whatever their distribution; all of
    them where they are too few."""
    count, cut, outside = len(ratios), 0, 0.0
    while cut < (count - 1) // 2:
        outside += 2 * comb(count, cut) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        cut += 1
    cut = max(0, cut - 1)
    return ratios[cut], ratios[-1 - cut]


def figures(samples: Sequence[Sample]) -> Figures:
    """Throughput over the whole run, and percentiles over all answers and tokens in it."""
    begin = min(sample.started for sample in samples)
    finish = max(sample.arrivals[-1][0] for sample in samples)
    firsts = [sample.ttft_seconds * 1000 for sample in samples]
    gaps = [gap * 1000 for sample in samples for gap in sample.gaps_seconds()]
    return Figures(
        tokens_per_second=sum(sample.tokens for sample in samples) / (finish - begin),
        ttft_p50_ms=percentile(firsts, 0.5),
        ttft_p99_ms=percentile(firsts, 0.99),
        gap_p50_ms=percentile(gaps, 0.5),
        gap_p99_ms=percentile(gaps, 0.99),
    )


def median(rounds: Sequence[Figures]) -> Figures:
    """Each figure's median over several rounds."""
    return Figures(
        *(statistics.median(getattr(each, name) for each in rounds) for name in Figures.__dataclass_fields__)
    )
