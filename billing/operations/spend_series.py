"""The operation that shows where a tenant's month goes: its days, by the groups that cost most."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlmodel import col, func, select

from billing.operations.spend_month import SPENT_FROM, AskMonth, ReportedMonth, reported_month
from billing.operations.spend_reasons import marks_of, shown_names
from billing.periods import Calendar, PeriodWindow
from billing.reports.bridge_windows import days_in
from billing.reports.spend_marks import MarkKind
from billing.reports.spend_series import DailySeries, SeriesGroup, SpendSums, daily_series
from billing.reports.usage_questions import Facet, UsageQuestion
from billing.tables.ledger import CostCenter
from billing.tables.tenants import ApiKey, Project
from billing.unit_of_work.units import Look
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

WEEK_DAYS = 7
FEW = 200


class SpendBy(StrEnum):
    """What spend is told apart by."""

    MODEL = "model"
    PROJECT = "project"
    COST_CENTER = "cost_center"
    USER = "user"
    KEY = "key"
    POOL = "pool"


# Tables of groups that may be many; models and pools never are, users always.
COUNTED = {SpendBy.PROJECT: Project, SpendBy.COST_CENTER: CostCenter, SpendBy.KEY: ApiKey}


class AskSeries(AskMonth, frozen=True, kw_only=True):
    """Which month, and by what."""

    by: Annotated[SpendBy, Meta(description="What the days are told apart by.")] = SpendBy.MODEL


class SeriesAmount(msgspec.Struct, frozen=True):
    """Cost and tokens of all kinds."""

    cost: MoneyAmount
    tokens: int

    @classmethod
    def of(cls, sums: SpendSums) -> "SeriesAmount":
        """The amount of these sums."""
        return cls(MoneyAmount.of(sums.amount_nano), sums.tokens)


class SeriesDay(msgspec.Struct, frozen=True):
    """A day of the tenant's zone. `open`: it is not over."""

    date: str
    open: bool
    total: SeriesAmount


class ShownGroup(msgspec.Struct, frozen=True):
    """A group: `id` empty: of nobody. `name`: as people know it. `days`: one amount a day of the answer."""

    id: str
    name: str
    month: SeriesAmount
    days: list[SeriesAmount]


class OtherGroups(msgspec.Struct, frozen=True):
    """All groups that are not shown: how many, and their sum."""

    count: int
    month: SeriesAmount
    days: list[SeriesAmount]


class SeriesMark(msgspec.Struct, frozen=True):
    """What explains a jump: a letter on the bar of a day, and why."""

    letter: str
    date: str
    kind: MarkKind
    text: str


class SpendSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A month's spend by day. `days`: those that have begun; `groups`: the most expensive first; `nobody`:
    what belongs to no such group; `total`: of all. `unmarked`: smaller reasons that have no letter."""

    tenant: str
    month: str
    by: SpendBy
    time_zone: str
    closed: bool
    days: list[SeriesDay]
    groups: list[ShownGroup]
    others: OtherGroups | None
    nobody: ShownGroup | None
    total: SeriesAmount
    marks: list[SeriesMark]
    unmarked: int


@operation(
    "spend.series",
    "GET /tenants/{tenant}/spend/series",
    may=STAFF | PAYERS,
    uses=Uses(
        reads=f"{SPENT_FROM} project cost_center api_key tenant_user price_book price_version price",
    ),
)
async def show_series(look: Look, ask: AskSeries) -> SpendSeries:
    """Show a month's cost and tokens by day of the five groups that cost most, and what explains jumps."""
    month = await reported_month(look, ask)
    days = [day for day in days_in(month.calendar, month.number) if day.start_ms <= month.now_ms]
    if not days:
        found = DailySeries.empty()
    else:
        window = PeriodWindow(days[0].start_ms, days[-1].end_ms)
        question = UsageQuestion(month.tenant_id, window, month.calendar, (Facet(ask.by.value),))
        since_ms = _week_before(month.calendar, window.start_ms)
        found = await daily_series(look.db, question, since_ms, await _are_few(look, month.tenant_id, ask.by))
    shown = [each.id for each in found.top]
    names = await shown_names(look, month.tenant_id, Facet(ask.by.value), shown)
    letters, unmarked = await marks_of(look, month, days, found)
    return SpendSeries(
        tenant=month.tenant_id,
        month=month.text,
        by=ask.by,
        time_zone=month.zone,
        closed=month.number in month.calendar.closed,
        days=[_day(month, day, found) for day in days],
        groups=[_group(each, names.get(each.id, each.id), days) for each in found.top],
        others=_others(found, days),
        nobody=None if found.nobody is None else _group(found.nobody, "", days),
        total=SeriesAmount.of(found.total),
        marks=[
            SeriesMark(each.letter, each.mark.day.isoformat(), each.mark.kind, each.mark.text)
            for each in letters
        ],
        unmarked=unmarked,
    )


async def _are_few(look: Look, tenant_id: str, by: SpendBy) -> bool:
    """True where a tenant has so few groups that all of them are read."""
    table: Any = COUNTED.get(by)
    if table is None:
        return by is not SpendBy.USER
    some = select(table.id).where(col(table.tenant_id) == tenant_id).limit(FEW + 1).subquery("some")
    async with look.db.session() as session:
        return (await session.exec(select(func.count()).select_from(some))).one() <= FEW


def _week_before(calendar: Calendar, at_ms: int) -> int:
    """The start of the day a week before an instant, or of the first day there is."""
    for _ in range(WEEK_DAYS):
        if at_ms <= 0:
            break
        at_ms = calendar.day_at(at_ms - 1).start_ms
    return max(0, at_ms)


def _day(month: ReportedMonth, day: PeriodWindow, found: DailySeries) -> SeriesDay:
    sums = found.days.get(day.start_ms, SpendSums())
    return SeriesDay(
        month.date_of(day.start_ms).isoformat(), day.end_ms > month.now_ms, SeriesAmount.of(sums)
    )


def _group(group: SeriesGroup, name: str, days: Sequence[PeriodWindow]) -> ShownGroup:
    return ShownGroup(group.id, name, SeriesAmount.of(group.month), _amounts(group, days))


def _others(found: DailySeries, days: Sequence[PeriodWindow]) -> OtherGroups | None:
    if not found.more:
        return None
    return OtherGroups(found.more, SeriesAmount.of(found.others.month), _amounts(found.others, days))


def _amounts(group: SeriesGroup, days: Sequence[PeriodWindow]) -> list[SeriesAmount]:
    return [SeriesAmount.of(group.days.get(day.start_ms, SpendSums())) for day in days]


OPERATIONS = (show_series,)
