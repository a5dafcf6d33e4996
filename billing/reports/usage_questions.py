"""Questions about a tenant's usage: a window, facts to group by, buckets of time, and conditions. Pure.

Sums are read from the rollups, whose hours are UTC's. An hour in which the window or a bucket begins or ends
(in zones of half hours) belongs to it only in part: it is *split*, and read from its lines.
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
BRIEF = ("amount_nano", "tokens")
FINE_DAYS_MAX = 32  # by the hour, or by what is read from lines


class Facet(StrEnum):
    """A fact to group usage by, or to select it by."""

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
"""Facets that the rollups lack."""


class UsageBucket(StrEnum):
    """Length of a bucket: days and months are the tenant's (closed ones as they were closed), hours are
    UTC's."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True)
class UsageQuestion:
    """`where`: allowed values of each of these facts. `project`: the only one that the caller may see, None:
    all. `only_amounts`: groups without a cost are left out. `brief`: only the sums
    BRIEF, as each costs time."""

    tenant_id: str
    window: PeriodWindow
    calendar: Calendar
    by: tuple[Facet, ...] = ()
    bucket: UsageBucket | None = None
    where: Mapping[Facet, tuple[str, ...]] = field(default_factory=dict[Facet, tuple[str, ...]])
    project: str | None = None
    only_amounts: bool = False
    brief: bool = False

    @property
    def of_lines(self) -> bool:
        """True where only the lines can answer, as the rollups lack a facet."""
        return not OF_LINES.isdisjoint((*self.by, *self.where))

    @cached_property
    def buckets(self) -> dict[int, PeriodWindow]:
        """Whole days or months that overlap the window, in order, by their start; empty without such
        buckets."""
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
    """The end of a page: its last row's bucket and group."""

    bucket_ms: int
    group: tuple[str, ...]


def check_question(question: UsageQuestion) -> None:
    """Raises ValueError, in words for the caller, where the question is too large."""
    start, end = question.window
    if not FIRST_MS <= start < end <= LAST_MS:
        raise ValueError("from must lie before to, and both in the years 1970 to 9998")
    most = FINE_DAYS_MAX if question.of_lines or question.bucket is UsageBucket.HOUR else DAYS_MAX
    if end - start > most * DAY_MS:
        fine = f" by the hour, or by or of {', '.join(sorted(OF_LINES))}" if most == FINE_DAYS_MAX else ""
        raise ValueError(f"at most {most} days at once{fine}: ask for a shorter time")


def split_hours(question: UsageQuestion) -> list[int]:
    """Starts of the hours that rollups cannot answer for."""
    cuts = {*question.window, *question.buckets}
    return sorted({cut - cut % HOUR_MS for cut in cuts if cut % HOUR_MS and _inside(cut, question.window)})


def _inside(cut: int, window: PeriodWindow) -> bool:
    return window.start_ms <= cut <= window.end_ms


def bucket_window(question: UsageQuestion, bucket_ms: int) -> PeriodWindow:
    """The part of a bucket, given its start, that lies in the window."""
    window = question.window
    if question.bucket is None:
        return window
    end = bucket_ms + HOUR_MS if question.bucket is UsageBucket.HOUR else question.buckets[bucket_ms].end_ms
    return PeriodWindow(max(bucket_ms, window.start_ms), min(end, window.end_ms))
