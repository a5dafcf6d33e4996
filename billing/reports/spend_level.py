"""A tenant's usual cost of a day: the shares of weekdays, and the level that is left without them. Pure.

Floats, as in `forecast.py`: these are estimates, and no amount is booked by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median

WEEK = 7
WEEKEND = (5, 6)
SHARE_LEAST, RATIO_MOST = 0.02, 3.0  # of an average day
LENT_DAYS = 1.0  # how many days of its own outweigh what a weekday borrows
HALF_LIFE_DAYS = 14
SLOPE_DAYS_LEAST = 21
FITS = 4  # times that odd days are drawn to the fit, and it is made again
ODD = 3.0  # deviations beyond which a day pulls the fit no more
MAD_OF_NORMAL = 1.4826
NOISE_EXPECTED, NOISE_EXPECTED_DAYS = 0.25, 2.0  # of the level, before anything is known
ECHO_MOST = 0.6
JUMP_DAYS_LEAST = 3
JUMP_TIMES, JUMP_DEVIATIONS = 1.5, 8.0
JUMPS_MAX = 3


@dataclass(frozen=True)
class DailyLevel:
    """The cost of an average day. `now`: today; `slope`: its change a day; `noise`: the deviation of a day
    from it; `now_error` and `slope_error`: how well these are known, the slope as of `lag` days ago;
    `widening`: of bounds, as few days were seen."""

    now: float
    slope: float
    noise: float
    now_error: float
    slope_error: float
    lag: float
    widening: float


def weekday_shares(days: Sequence[float], first_weekday: int) -> list[float]:
    """The usual cost of each weekday, from Monday, as a share of an average day's. `first_weekday`: of the
    first day; all are 1 before a whole week is known."""
    if len(days) < WEEK:
        return [1.0] * WEEK
    ratios: list[list[float]] = [[] for _ in range(WEEK)]
    for at, cost in enumerate(days):
        start = max(0, min(at - WEEK // 2, len(days) - WEEK))
        around = fmean(days[start : start + WEEK])
        if around > 0:
            ratios[(first_weekday + at) % WEEK].append(min(RATIO_MOST, max(0.0, cost / around)))
    kinds = [
        _lent([each for day in ratios[start:end] for each in day], 1.0) for start, end in ((0, 5), (5, 7))
    ]
    shares = [max(SHARE_LEAST, _lent(own, kinds[day in WEEKEND])) for day, own in enumerate(ratios)]
    return [share * WEEK / sum(shares) for share in shares]


def daily_level(levels: Sequence[float]) -> DailyLevel:
    """Fit the level to days without their weekdays' shares, at least one, in order."""
    levels = since_jump(levels)
    count = len(levels)
    weights = [0.5 ** ((count - 1 - at) // WEEK * WEEK / HALF_LIFE_DAYS) for at in range(count)]
    fit = _robust_fit(levels, weights)
    off = [cost - fit.at(at) for at, cost in enumerate(levels)]
    known = sum(weights) ** 2 / sum(each * each for each in weights)
    noise = _noise(off, weights, known, fit)
    slope_error = noise / sqrt(fit.spread) if fit.spread else 0.0
    slope = fit.slope * max(0.0, 1 - (slope_error / fit.slope) ** 2) if fit.slope else 0.0
    lag = count - fit.center
    return DailyLevel(
        now=max(0.0, fit.mean + _oddities(off, weights) + slope * lag),
        slope=slope,
        noise=noise,
        now_error=noise * _echo(off) / sqrt(known),
        slope_error=slope_error,
        lag=lag,
        widening=1 + 2 / known,
    )


def since_jump(levels: Sequence[float]) -> Sequence[float]:
    """The days since the level last jumped to another and stayed there."""
    for _ in range(JUMPS_MAX):
        splits = range(JUMP_DAYS_LEAST, len(levels) - JUMP_DAYS_LEAST + 1)
        sizes = {
            split: _jump(levels[max(0, split - WEEK) : split], levels[split : split + WEEK])
            for split in splits
        }
        if not sizes or max(sizes.values()) < JUMP_DEVIATIONS:
            break
        levels = levels[max(sizes, key=lambda split: (sizes[split], split)) :]
    return levels


def _jump(before: Sequence[float], after: Sequence[float]) -> float:
    """How many deviations lie between two levels; 0 where they are much alike."""
    was, is_now = median(before), median(after)
    if max(was, is_now) < JUMP_TIMES * min(was, is_now) or was == is_now:
        return 0.0
    off = [abs(each - was) for each in before] + [abs(each - is_now) for each in after]
    deviation = max(MAD_OF_NORMAL * median(off), 0.02 * max(abs(was), abs(is_now)))
    return abs(is_now - was) / (deviation * sqrt(1 / len(before) + 1 / len(after)))


@dataclass(frozen=True)
class _Fit:
    """A line through days: `mean` at `center`; `spread`: the weighted square distances from it, 0 where the
    slope was not fitted."""

    mean: float
    slope: float
    center: float
    spread: float

    def at(self, day: int) -> float:
        return self.mean + self.slope * (day - self.center)


def _robust_fit(levels: Sequence[float], weights: Sequence[float]) -> _Fit:
    drawn = list(levels)
    fit = _fit(drawn, weights)
    for _ in range(FITS):
        off = [cost - fit.at(at) for at, cost in enumerate(levels)]
        most = ODD * _deviation(off)
        if most:
            drawn = [fit.at(at) + max(-most, min(most, each)) for at, each in enumerate(off)]
        fit = _fit(drawn, weights)
    return fit


def _fit(levels: Sequence[float], weights: Sequence[float]) -> _Fit:
    whole = sum(weights)
    center = sum(weight * at for at, weight in enumerate(weights)) / whole
    mean = sum(map(_product, weights, levels)) / whole
    if len(levels) < SLOPE_DAYS_LEAST:
        return _Fit(mean, 0.0, center, 0.0)
    spread = sum(weight * (at - center) ** 2 for at, weight in enumerate(weights))
    pulled = sum(weight * (at - center) * (levels[at] - mean) for at, weight in enumerate(weights))
    return _Fit(mean, pulled / spread, center, spread)


def _oddities(off: Sequence[float], weights: Sequence[float]) -> float:
    """What odd days add to an average one: the more of them there were, the more are expected."""
    most = ODD * _deviation(off)
    beyond = [each - max(-most, min(most, each)) if most else 0.0 for each in off]
    return _trusted(beyond) * sum(map(_product, weights, beyond)) / sum(weights)


def _noise(off: Sequence[float], weights: Sequence[float], known: float, fit: _Fit) -> float:
    """The deviation of a day, odd ones as far as they are expected."""
    most = ODD * _deviation(off)
    clipped = [max(-most, min(most, each)) if most else each for each in off]
    beyond = [each - near for each, near in zip(off, clipped, strict=True)]
    trust = _trusted(beyond)
    squares = [
        near * near + trust * (each * each - near * near) for each, near in zip(off, clipped, strict=True)
    ]
    measured = sum(map(_product, weights, squares)) / sum(weights) * known / max(1.0, known - 2)
    expected = (NOISE_EXPECTED * abs(fit.mean)) ** 2
    return sqrt((known * measured + NOISE_EXPECTED_DAYS * expected) / (known + NOISE_EXPECTED_DAYS))


def _trusted(beyond: Sequence[float]) -> float:
    """How far it is believed that odd days come again: not at all of one, by half of three."""
    odd = sum(1 for each in beyond if each)
    return (odd - 1) / (odd + 1) if odd else 0.0


def _echo(off: Sequence[float]) -> float:
    """How much less is known where each day is off like the one before."""
    squares = sum(each * each for each in off)
    if not squares:
        return 1.0
    echo = min(ECHO_MOST, max(0.0, sum(map(_product, off, off[1:])) / squares))
    return sqrt((1 + echo) / (1 - echo))


def _deviation(off: Sequence[float]) -> float:
    return MAD_OF_NORMAL * median(abs(each) for each in off)


def _lent(own: Sequence[float], lender: float) -> float:
    """The mean of what is known, without its least and its largest where there is enough, and of what is
    lent."""
    if len(own) > 4:
        own = sorted(own)[1:-1]
    return (sum(own) + LENT_DAYS * lender) / (len(own) + LENT_DAYS)


def _product(one: float, other: float) -> float:
    return one * other
