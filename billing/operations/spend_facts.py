"""A tenant's month as its Spend page shows it: structs, and how days and a forecast make them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from billing.operations.budget_facts import BudgetInUse
from billing.periods import HOUR_MS, PeriodWindow
from billing.reports.forecast import (
    HISTORY_DAYS,
    CrossingDays,
    SpendForecast,
    SpentDays,
    forecast,
    part_gone,
)
from billing.reports.spend_days import SpentDay
from core.operations import MoneyAmount

GONE_DAYS = 14  # of whose hours it is known how much of a day's cost is booked by now


class MonthState(StrEnum):
    """What became of a month: it runs, it is over and can still change, or it is closed."""

    OPEN = "open"
    OVER = "over"
    CLOSED = "closed"


class DayCost(msgspec.Struct, frozen=True):
    """What a day cost, by the tenant's zone. `over` False: it runs."""

    day: date
    cost: MoneyAmount
    over: bool


class SameDays(msgspec.Struct, frozen=True, kw_only=True):
    """What the days of the month that are over cost, to the end of `by`; and as many days of the month
    before, to the end of `before_by`."""

    by: date
    cost: MoneyAmount
    before_by: date
    before: MoneyAmount


class ExpectedDay(msgspec.Struct, frozen=True):
    """What the month costs to the end of a day: expected, and bounds that hold it 4 of 5 times."""

    day: date
    expected: MoneyAmount
    low: MoneyAmount
    high: MoneyAmount


class MonthForecast(msgspec.Struct, frozen=True):
    """What the month will cost, and its path from today to its last day."""

    cost: MoneyAmount
    low: MoneyAmount
    high: MoneyAmount
    days: list[ExpectedDay]


class LastsUntil(msgspec.Struct, frozen=True):
    """The day on which money ends by the forecast's path, and between which days 4 of 5 times; None: not
    within the path."""

    day: date | None
    early: date | None
    late: date | None

    @classmethod
    def of(cls, found: CrossingDays) -> "LastsUntil":
        """The days of a path."""
        return cls(found.expected, found.early, found.late)


class SpendBudget(BudgetInUse, frozen=True, kw_only=True):
    """A budget, and when it is spent: of the whole tenant's by the forecast, of others `exhausted` has it by
    their pace. `owner`: the id of whose spending it is, empty for the tenant."""

    owner: str
    lasts: LastsUntil | UnsetType = UNSET


class SpendWallet(msgspec.Struct, frozen=True, kw_only=True):
    """Prepaid money. `lasts` None: too little is known; `next_expiry`: when the next grant lapses."""

    left: MoneyAmount
    owed: MoneyAmount
    next_expiry: str | None
    lasts: LastsUntil | None


@dataclass(frozen=True)
class SpendMonth:
    """A month's days so far, those of the month before, and the days before today that a forecast knows.
    `today` None: the month is over."""

    window: PeriodWindow
    days: Sequence[SpentDay]
    before: Sequence[SpentDay]
    history: Sequence[SpentDay]
    today: SpentDay | None

    @classmethod
    def of(
        cls, days: Sequence[SpentDay], window: PeriodWindow, before: PeriodWindow, now_ms: int
    ) -> "SpendMonth":
        """Sort the days that were read."""
        begun = [each for each in days if each.window.start_ms <= now_ms]
        own = [each for each in begun if window.start_ms <= each.window.start_ms < window.end_ms]
        last = [each for each in begun if before.start_ms <= each.window.start_ms < before.end_ms]
        runs = own and own[-1].window.end_ms > now_ms
        history = begun[:-1] if runs else []
        return cls(window, own, last, history[-HISTORY_DAYS:], own[-1] if runs else None)

    @property
    def over(self) -> Sequence[SpentDay]:
        """The days that are over."""
        return self.days[:-1] if self.today else self.days

    @property
    def spent_nano(self) -> int:
        """What it cost so far."""
        return sum(each.nano for each in self.days)

    def forecast(self, now_ms: int) -> SpendForecast | None:
        """What today and the days that follow cost, or None."""
        if self.today is None:
            return None
        hours = (now_ms - self.today.window.start_ms) / HOUR_MS
        gone = part_gone([each.hours for each in self.history[-GONE_DAYS:]], hours)
        costs = [each.nano for each in self.history]
        return forecast(SpentDays(costs, self.today.day, self.today.nano, gone))


def day_costs(month: SpendMonth, days: Sequence[SpentDay]) -> list[DayCost]:
    """Days with what they cost."""
    return [DayCost(each.day, MoneyAmount.of(each.nano), each is not month.today) for each in days]


def same_days(month: SpendMonth) -> SameDays | None:
    """The days that are over beside as many of the month before; None: there are none."""
    own, before = month.over, month.before[: len(month.over)]
    if month.today is None:
        before = month.before
    if not own or not before:
        return None
    return SameDays(
        by=own[-1].day,
        cost=MoneyAmount.of(sum(each.nano for each in own)),
        before_by=before[-1].day,
        before=MoneyAmount.of(sum(each.nano for each in before)),
    )


def month_forecast(month: SpendMonth, path: SpendForecast, last: date) -> MonthForecast:
    """The path of the month to its last day, with what was booked before today."""
    booked = sum(each.nano for each in month.over)
    days = [
        ExpectedDay(each.day, *(MoneyAmount.of(booked + nano) for nano in each[1:]))
        for each in path.sums
        if each.day <= last
    ]
    return MonthForecast(days[-1].expected, days[-1].low, days[-1].high, days)
