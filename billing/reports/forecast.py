"""Forecasts a tenant's spending from its days: what is expected, and a band that holds it 4 of 5 times. Pure.

Each day is a level times the usual share of its weekday, plus noise. Weekdays borrow from all working days or
from the weekend, and these from all days, the more so the fewer weeks are known. The level may grow or
shrink, and is fitted to the days since it last jumped, the later ones counting more; a single odd day pulls
it little. The band comes from how far the days were from that fit, from how well the level is known, and from
weekdays that were not seen yet.

Amounts come in and go out as whole nano. Within are floats: what is only likely has no last digit.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import exp, sqrt
from typing import NamedTuple

from billing.reports.spend_level import WEEK, DailyLevel, daily_level, weekday_shares

HISTORY_DAYS = 56
LEAST_DAYS = 3
AHEAD_DAYS = 62  # today, and the days for which a wallet's end is told
DAMPING, GROWTH_MOST = 0.985, 0.04  # of growth, each day ahead; and of a day
WITHIN_4_OF_5 = 1.2816  # so many deviations of a normal distribution, to either side
LIFE_CHANGES = 0.08  # deviation of what is to come, beside all that earlier days tell
UNSEEN = 0.4  # deviation of a weekday that was not seen yet, of a likely day
SLOPE_ERRORS_COUNT = 0.7  # less than whole: a slope that is little known is taken as smaller
TODAY_COUNTS = 1.5  # how many usual days weigh as much as what today shows of itself


@dataclass(frozen=True)
class SpentDays:
    """What is booked. `days`: costs of consecutive days until yesterday; `gone`: the part of a usual day's
    cost that is booked at this time of the day."""

    days: Sequence[int]
    today: date
    today_nano: int = 0
    gone: float = 0.0


class ExpectedSum(NamedTuple):
    """What is spent from today's beginning to the end of a day: expected, and between which bounds 4 of 5
    times."""

    day: date
    expected_nano: int
    low_nano: int
    high_nano: int


class CrossingDays(NamedTuple):
    """The days on which an amount is reached: by the expected path, and by the bounds of the band. None: not
    within the path."""

    expected: date | None
    early: date | None
    late: date | None


@dataclass(frozen=True)
class SpendForecast:
    """Sums of today and the days that follow, in order."""

    sums: tuple[ExpectedSum, ...]

    def at(self, day: date) -> ExpectedSum:
        """The sum to the end of this day, or of the last one that is forecast."""
        return self.sums[max(0, min((day - self.sums[0].day).days, len(self.sums) - 1))]

    def crossing(self, left_nano: int, until: date | None = None) -> CrossingDays:
        """When what was left at today's beginning is spent, at the latest on `until`."""
        within = [each for each in self.sums if until is None or each.day <= until]
        return crossing_days([(each, left_nano) for each in within])


def forecast(spent: SpentDays, ahead: int = AHEAD_DAYS) -> SpendForecast | None:
    """Forecast today and the days that follow, `ahead` in all; None: it used Parley for too few days."""
    days = _since_first_use(spent.days[-HISTORY_DAYS:])
    if len(days) < LEAST_DAYS:
        return None
    first = spent.today - timedelta(days=len(days))
    shares = weekday_shares(days, first.weekday())
    weekdays = [(first.weekday() + at) % WEEK for at in range(len(days))]
    level = daily_level([cost / shares[weekday] for cost, weekday in zip(days, weekdays, strict=True)])
    return SpendForecast(tuple(_sums(spent, level, shares, frozenset(weekdays), ahead)))


def crossing_days(sums: Sequence[tuple[ExpectedSum, int]]) -> CrossingDays:
    """The first days on which sums reach what there is to spend by then."""

    def first(amount: Callable[[ExpectedSum], int]) -> date | None:
        return next((each.day for each, most in sums if amount(each) >= most), None)

    return CrossingDays(
        first(lambda each: each.expected_nano),
        first(lambda each: each.high_nano),
        first(lambda each: each.low_nano),
    )


def part_gone(days: Sequence[Sequence[int]], hours: float) -> float:
    """The part of these days' costs, by the hour, that was booked after so many hours. An hour that runs
    counts in part."""
    whole, running = int(hours), hours - int(hours)
    before = sum(sum(day[:whole]) + running * sum(day[whole : whole + 1]) for day in days)
    every = sum(map(sum, days))
    return min(1.0, max(0.0, before / every)) if every > 0 else min(1.0, hours / 24)


def _since_first_use(days: Sequence[int]) -> Sequence[int]:
    first = next((at for at, cost in enumerate(days) if cost), len(days))
    return days[first:]


def _sums(
    spent: SpentDays, level: DailyLevel, shares: Sequence[float], seen: Container[int], ahead: int
) -> list[ExpectedSum]:
    """Add up the days: each has a likely cost and noise of its own, and all share the errors of the level."""
    found: list[ExpectedSum] = []
    total = own = weight = leaning = growth = 0.0
    low = high = 0
    growing = max(-GROWTH_MOST, min(GROWTH_MOST, level.slope / level.now)) if level.now else 0.0
    for at in range(ahead):
        day = spent.today + timedelta(days=at)
        usual = shares[day.weekday()]
        share = usual * (1 - spent.gone if at == 0 else 1)
        growth += DAMPING**at if at else 0.5
        likely = level.now * exp(growing * growth)
        total += likely * share * (_today_of_usual(spent, likely * usual) if at == 0 else 1)
        noise = level.noise * (likely / level.now if level.now else 1)
        own += share * (noise**2 + (0 if day.weekday() in seen else UNSEEN * likely) ** 2)
        weight += share
        leaning += share * (growth + level.lag) * level.slope_error * SLOPE_ERRORS_COUNT
        common = (weight * level.now_error) ** 2 + leaning**2 + (LIFE_CHANGES * total) ** 2
        wide = WITHIN_4_OF_5 * level.widening * sqrt(own + common)
        low, high = max(low, round(total - wide)), max(high, round(total + wide))
        found.append(_sum_of(day, spent.today_nano, low, round(total), high))
    return found


def _sum_of(day: date, booked: int, low: int, expected: int, high: int) -> ExpectedSum:
    return ExpectedSum(day, booked + expected, booked + min(low, expected), booked + max(high, expected))


def _today_of_usual(spent: SpentDays, usual: float) -> float:
    """How today's rest compares with that of a usual day, from what is booked of today."""
    if usual <= 0:
        return 1.0
    return max(0.0, (spent.today_nano + TODAY_COUNTS * usual) / (spent.gone * usual + TODAY_COUNTS * usual))
