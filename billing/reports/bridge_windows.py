"""Which days of two months are compared. Pure.

A day that is not over is left out, so that part of a day never stands against a whole one.
"""

from enum import StrEnum
from typing import NamedTuple

from billing.periods import Calendar, PeriodWindow
from billing.reports.spend_words import month_name


class BridgeAgainst(StrEnum):
    """What a month is compared with: the same days of the month before it, or all of that."""

    SAME_DAYS = "days"
    MONTH = "month"


class BridgeSpan(NamedTuple):
    """The first days of a month, `days` of `of` days. `window` is empty where there are none."""

    month: int
    window: PeriodWindow
    days: int
    of: int

    @property
    def name(self) -> str:
        """`1 to 17 November`, or `November` where it is all of it."""
        month = month_name(self.month)
        if self.days == self.of:
            return month
        return f"1 {month}" if self.days == 1 else f"1 to {self.days} {month}"


class BridgeSpans(NamedTuple):
    """What is compared. `open_day`: the day that runs is left out."""

    against: BridgeAgainst
    before: BridgeSpan
    after: BridgeSpan
    open_day: bool


def days_in(calendar: Calendar, month: int) -> list[PeriodWindow]:
    """A month's days, in order."""
    window = calendar.window(month)
    days: list[PeriodWindow] = []
    at = max(window.start_ms, 0)
    while at < window.end_ms:
        days.append(calendar.day_at(at))
        at = days[-1].end_ms
    return days


def bridge_spans(calendar: Calendar, month: int, against: BridgeAgainst | None, now_ms: int) -> BridgeSpans:
    """The spans of a month and of the one before it. `against` None: the same days of a month that runs, else
    all of it. Raises ValueError for a month that has none before it."""
    days, before = days_in(calendar, month), days_in(calendar, month - 1)
    over = [day for day in days if day.end_ms <= now_ms]
    open_day = len(over) < len(days) and days[0].start_ms <= now_ms
    if against is None:
        against = BridgeAgainst.MONTH if len(over) == len(days) else BridgeAgainst.SAME_DAYS
    if against is BridgeAgainst.SAME_DAYS:
        same = min(len(over), len(before))
        spans = _span(month - 1, before[:same], before), _span(month, over[:same], days)
    else:
        spans = _span(month - 1, before, before), _span(month, over, days)
    return BridgeSpans(against, *spans, open_day)


def _span(month: int, taken: list[PeriodWindow], days: list[PeriodWindow]) -> BridgeSpan:
    start = days[0].start_ms
    window = PeriodWindow(start, taken[-1].end_ms if taken else start)
    return BridgeSpan(month, window, len(taken), len(days))
