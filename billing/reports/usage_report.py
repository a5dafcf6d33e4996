"""Sums of a tenant's usage and cost in a window: by project, cost center, user, key, model, pool or day.

Whole hours come from the rollups. A window may begin within an hour (zones of half hours): its edges come
from the lines themselves, so that the sums are exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select, union_all
from sqlmodel import col, func

from billing.ledger.transactions import MEASURES
from billing.periods import HOUR_MS, Calendar, PeriodWindow
from billing.tables.ledger import HOUR_SUMS, RollupHour, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow
from core.sql.database import Database


class GroupBy(StrEnum):
    """Grouping of the sums."""

    PROJECT = "project"
    COST_CENTER = "cost_center"
    USER = "user"
    KEY = "key"
    MODEL = "model"
    POOL = "pool"
    DAY = "day"
    NOTHING = "total"


def of_owner(name: str) -> Any:
    """A column of a line's request, or of its charge where it has no request."""
    return func.coalesce(getattr(UsageRow, name), getattr(Charge, name))


COLUMNS = {
    GroupBy.PROJECT: ("project_id", of_owner("project_id")),
    GroupBy.COST_CENTER: ("cost_center_id", UsageLine.cost_center_id),
    GroupBy.USER: ("user_id", of_owner("user_id")),
    GroupBy.KEY: ("key_id", of_owner("key_id")),
    GroupBy.MODEL: ("model", of_owner("model")),
    GroupBy.POOL: ("pool", of_owner("pool")),
}
SUMS = HOUR_SUMS


@dataclass
class UsageSums:
    """Sums of one group. `group`: an id, a model, or a day as the Unix ms of its start; empty: no owner."""

    group: str
    requests: int = 0
    errors: int = 0
    input_uncached: int = 0
    input_cached: int = 0
    output_text: int = 0
    output_reasoning: int = 0
    amount_nano: int = 0

    def add(self, sums: Sequence[Any]) -> None:
        """Add values in the order of SUMS."""
        for name, value in zip(SUMS, sums, strict=True):
            setattr(self, name, getattr(self, name) + int(value or 0))


async def usage_in(
    db: Database, tenant_id: str, window: PeriodWindow, by: GroupBy, days_of: Calendar | ZoneInfo
) -> list[UsageSums]:
    """Sums of each group in a window, most expensive first; days in order, by the tenant's calendar or a
    zone."""
    if by is GroupBy.DAY:
        calendar = days_of if isinstance(days_of, Calendar) else Calendar(days_of)
        return await _by_day(db, tenant_id, window, calendar)
    groups: dict[str, UsageSums] = {}
    for group, *sums in await _sums(db, tenant_id, window, by):
        groups.setdefault(group, UsageSums(group)).add(sums)
    return sorted(groups.values(), key=lambda usage: (-usage.amount_nano, usage.group))


@dataclass(frozen=True)
class RankedUsage:
    """The first of a window's groups, how many there are, and the sum of all of them."""

    first: list[UsageSums]
    groups: int
    total: UsageSums

    @classmethod
    def of(cls, found: Sequence[UsageSums], most: int) -> "RankedUsage":
        """At most so many of all groups."""
        return cls(list(found[:most]), len(found), sum_of(found))


async def ranked_usage(
    db: Database, tenant_id: str, window: PeriodWindow, by: GroupBy, most: int
) -> RankedUsage:
    """The groups that cost most in a window, at most so many (one or more). The database finds them, as there
    may be a million; not by day."""
    group: Any = getattr(RollupHour, COLUMNS[by][0]) if by in COLUMNS else func.coalesce("", "")
    parts = [_hours(tenant_id, inner_hours(window), group)]
    parts += [_lines(tenant_id, edge, by) for edge in edges_of(window)]
    rows = (union_all(*parts) if len(parts) > 1 else parts[0]).subquery("parts")
    sums = [func.sum(rows.c[name]).label(name) for name in SUMS]
    grouped = select(rows.c.group, *sums).group_by(rows.c.group).subquery("grouped")
    own = [grouped.c[name] for name in SUMS]
    statement: Any = select(
        grouped.c.group, *own, func.count().over(), *(func.sum(each).over() for each in own)
    )
    order = grouped.c.amount_nano.desc(), grouped.c.group
    async with db.looking() as connection:
        found: list[Any] = list((await connection.execute(statement.order_by(*order).limit(most))).all())
    first, total = [UsageSums(str(row[0])) for row in found], UsageSums("")
    for usage, row in zip(first, found, strict=True):
        usage.add(row[1 : 1 + len(SUMS)])
    if found:
        total.add(found[0][2 + len(SUMS) :])
    return RankedUsage(first, int(found[0][1 + len(SUMS)]) if found else 0, total)


def sum_of(found: Iterable[UsageSums]) -> UsageSums:
    """The sum of groups. Pure."""
    total = UsageSums("")
    for each in found:
        total.add([getattr(each, name) for name in SUMS])
    return total


async def usage_as_of(
    db: Database, tenant_id: str, window: PeriodWindow, by: GroupBy, known_ms: int
) -> list[UsageSums]:
    """Sums of each group by the books at an earlier time, without later lines and corrections. Read from the
    lines; not by day."""
    groups: dict[str, UsageSums] = {}
    for group, *sums in await _of_lines(db, tenant_id, window, by, known_ms):
        groups.setdefault(group, UsageSums(group)).add(sums)
    return sorted(groups.values(), key=lambda usage: (-usage.amount_nano, usage.group))


async def _by_day(db: Database, tenant_id: str, window: PeriodWindow, calendar: Calendar) -> list[UsageSums]:
    """Read the hours once and add them up to days here: there are at most some thousand."""
    hours = await _of_hours(db, tenant_id, inner_hours(window), col(RollupHour.hour_ms))
    by_hour = {int(hour): sums for hour, *sums in hours}
    days: list[UsageSums] = []
    at = window.start_ms
    while at < window.end_ms:
        day = calendar.day_at(at)
        inside = PeriodWindow(max(day.start_ms, window.start_ms), min(day.end_ms, window.end_ms))
        usage = UsageSums(str(day.start_ms))
        whole = inner_hours(inside)
        for hour in range(whole.start_ms, whole.end_ms, HOUR_MS):
            usage.add(by_hour.get(hour, (0,) * len(SUMS)))
        for edge in edges_of(inside):
            for _, *sums in await _of_lines(db, tenant_id, edge, GroupBy.NOTHING):
                usage.add(sums)
        days.append(usage)
        at = day.end_ms
    return days


async def _sums(db: Database, tenant_id: str, window: PeriodWindow, by: GroupBy) -> list[Sequence[Any]]:
    """Rows of (group, *SUMS): of the whole hours, and of the lines at the edges."""
    group: Any = getattr(RollupHour, COLUMNS[by][0]) if by in COLUMNS else func.coalesce("", "")
    rows = await _of_hours(db, tenant_id, inner_hours(window), group)
    for edge in edges_of(window):
        rows += await _of_lines(db, tenant_id, edge, by)
    return rows


def inner_hours(window: PeriodWindow) -> PeriodWindow:
    """The whole hours inside a window; empty where it holds none."""
    first = -(-window.start_ms // HOUR_MS) * HOUR_MS
    return PeriodWindow(first, max(first, window.end_ms // HOUR_MS * HOUR_MS))


def edges_of(window: PeriodWindow) -> list[PeriodWindow]:
    """The parts of a window outside its whole hours."""
    whole = inner_hours(window)
    if whole.start_ms == whole.end_ms:
        return [window]
    edges = (PeriodWindow(window.start_ms, whole.start_ms), PeriodWindow(whole.end_ms, window.end_ms))
    return [edge for edge in edges if edge.start_ms < edge.end_ms]


async def _of_hours(db: Database, tenant_id: str, hours: PeriodWindow, group: Any) -> list[Sequence[Any]]:
    async with db.looking() as connection:
        return list((await connection.execute(_hours(tenant_id, hours, group))).all())


def _hours(tenant_id: str, hours: PeriodWindow, group: Any) -> Any:
    """A select of (group, *SUMS) of whole hours."""
    sums = [func.sum(getattr(RollupHour, name)).label(name) for name in SUMS]
    statement = select(group.label("group"), *sums).where(
        col(RollupHour.tenant_id) == tenant_id,
        col(RollupHour.hour_ms) >= hours.start_ms,
        col(RollupHour.hour_ms) < hours.end_ms,
    )
    return statement.group_by(group)


async def _of_lines(
    db: Database, tenant_id: str, window: PeriodWindow, by: GroupBy, known_ms: int | None = None
) -> list[Sequence[Any]]:
    async with db.looking() as connection:
        return list((await connection.execute(_lines(tenant_id, window, by, known_ms))).all())


def _lines(tenant_id: str, window: PeriodWindow, by: GroupBy, known_ms: int | None = None) -> Any:
    """A select of (group, *SUMS) of lines."""
    group: Any = COLUMNS[by][1] if by in COLUMNS else func.coalesce("", "")
    first_line = col(UsageLine.number) == 0
    requests: Any = func.count(col(UsageLine.number)).filter(first_line)
    errors: Any = func.count(col(UsageLine.number)).filter(first_line, col(UsageRow.reason) == "error")
    quantities: list[Any] = [
        func.sum(col(UsageLine.quantity)).filter(col(UsageLine.meter) == meter) for meter in MEASURES
    ]
    amount: Any = func.sum(col(UsageLine.amount_nano))
    counted = zip(SUMS, (requests, errors, *quantities, amount), strict=True)
    sums = [value.label(name) for name, value in counted]
    statement = with_owners(select(group.label("group"), *sums)).where(
        col(UsageLine.tenant_id) == tenant_id,
        col(UsageLine.ended_ms) >= window.start_ms,
        col(UsageLine.ended_ms) < window.end_ms,
    )
    if known_ms is not None:
        statement = statement.where(col(UsageLine.posted_ms) <= known_ms)
    return statement.group_by(group)


def with_owners(statement: Any) -> Any:
    """Join a query of lines with each line's request, or its charge where it has no request."""
    return statement.outerjoin(
        UsageRow,
        (col(UsageRow.tenant_id) == col(UsageLine.tenant_id))
        & (col(UsageRow.request_id) == col(UsageLine.request_id)),
    ).outerjoin(
        Charge,
        (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (col(Charge.id) == col(UsageLine.request_id)),
    )
