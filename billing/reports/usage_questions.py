"""What is asked of a tenant's usage: a time, by which facts, in which buckets, of whom. Pure.

Sums are read from the rollups, whose hours are UTC's. An hour in which a time or a bucket begins or ends (in
zones of half hours) is in none of them whole: it is *split*, and read from its lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from billing.periods import FIRST_MS, HOUR_MS, LAST_MS, Calendar, PeriodWindow

BY_MAX = 2
DAY_MS = 24 * HOUR_MS
DAYS_MAX = 400
FINE_DAYS_MAX = 32  # by the hour, or by what is read from lines


class Facet(StrEnum):
    """A fact that usage is grouped or chosen by."""

    PROJECT = "project"
    COST_CENTER = "cost_center"
    USER = "user"
    KEY = "key"
    MODEL = "model"
    POOL = "pool"
    REASON = "reason"
    METER = "meter"
    KIND = "kind"


OF_LINES = frozenset({Facet.REASON, Facet.METER, Facet.KIND})
"""Of what the rollups do not know."""


class UsageBucket(StrEnum):
    """Pieces of time, each a group: days and months are the tenant's, those that are closed as
    they were, and hours UTC's."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True)
class UsageQuestion:
    """`where`: for each of these facts, the values of which one holds. `project`: the only one that whoever
    asks may know of, None: all. `only_amounts`: what cost nothing is left out."""

    tenant_id: str
    window: PeriodWindow
    calendar: Calendar
    by: tuple[Facet, ...] = ()
    bucket: UsageBucket | None = None
    where: Mapping[Facet, tuple[str, ...]] = field(default_factory=dict[Facet, tuple[str, ...]])
    project: str | None = None
    only_amounts: bool = False

    @property
    def of_lines(self) -> bool:
        """Whether it takes the lines, and no rollup answers it."""
        return not OF_LINES.isdisjoint((*self.by, *self.where))

    @cached_property
    def buckets(self) -> dict[int, PeriodWindow]:
        """The days or months that the time lies in, whole and in order, by their beginnings; none where there
        are no such buckets."""
        found: dict[int, PeriodWindow] = {}
        if self.bucket is None or self.bucket is UsageBucket.HOUR:
            return found
        at = self.window.start_ms
        while at < self.window.end_ms:
            each = self.calendar.day_at(at)
            if self.bucket is UsageBucket.MONTH:
                each = self.calendar.window(self.calendar.month_at(at))
            found[each.start_ms] = each
            at = each.end_ms
        return found


class PagePosition(NamedTuple):
    """Where a page ends: its last row's bucket and group."""

    bucket_ms: int
    group: tuple[str, ...]


def check_question(question: UsageQuestion) -> None:
    """Raises ValueError, in words for who asked, where it is too much to ask."""
    start, end = question.window
    if not FIRST_MS <= start < end <= LAST_MS:
        raise ValueError("from must lie before to, and both in the years 1970 to 9998")
    most = FINE_DAYS_MAX if question.of_lines or question.bucket is UsageBucket.HOUR else DAYS_MAX
    if end - start > most * DAY_MS:
        fine = f" by the hour, or by or of {', '.join(sorted(OF_LINES))}" if most == FINE_DAYS_MAX else ""
        raise ValueError(f"at most {most} days at once{fine}: ask for a shorter time")


def split_hours(question: UsageQuestion) -> list[int]:
    """The beginnings of the hours that no rollup answers for."""
    cuts = {*question.window, *question.buckets}
    return sorted({cut - cut % HOUR_MS for cut in cuts if cut % HOUR_MS and _inside(cut, question.window)})


def _inside(cut: int, window: PeriodWindow) -> bool:
    return window.start_ms <= cut <= window.end_ms


def bucket_window(question: UsageQuestion, bucket_ms: int) -> PeriodWindow:
    """What of the bucket that begins then lies in the time asked for."""
    window = question.window
    if question.bucket is None:
        return window
    end = bucket_ms + HOUR_MS if question.bucket is UsageBucket.HOUR else question.buckets[bucket_ms].end_ms
    return PeriodWindow(max(bucket_ms, window.start_ms), min(end, window.end_ms))
