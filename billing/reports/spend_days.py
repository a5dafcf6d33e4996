"""Costs of a tenant's days, by the hour, in one or two queries however many days there are. Reads only.

Hours come from the rollups by price, which have the fewest rows. Where a day begins within an hour (zones of
half hours), that hour's parts come from its lines.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlmodel import col

from billing.periods import HOUR_MS, Calendar, PeriodWindow
from billing.tables.ledger import RollupPrice, UsageLine
from core.sql.database import Database

MINUTE_MS = 60_000


@dataclass
class SpentDay:
    """A day of the tenant's, and what its hours cost, counted from its beginning; days of 23 and 25 hours
    have as many."""

    day: date
    window: PeriodWindow
    hours: list[int] = field(default_factory=list[int])

    @property
    def nano(self) -> int:
        """What it cost."""
        return sum(self.hours)


def days_in(calendar: Calendar, window: PeriodWindow) -> list[SpentDay]:
    """The days that overlap a window, in order, each date once: where a month was closed in another zone, its
    last day may be longer. Pure."""
    found: list[SpentDay] = []
    at = window.start_ms
    while at < window.end_ms:
        each = calendar.day_at(at)
        zone = calendar.zone_of(calendar.month_at(each.start_ms))
        day = datetime.fromtimestamp(each.start_ms / 1000, zone).date()
        if found and day <= found[-1].day:
            found[-1].window = PeriodWindow(found[-1].window.start_ms, each.end_ms)
        else:
            found.append(SpentDay(day, each))
        at = each.end_ms
    for each in found:
        each.hours = [0] * -(-(each.window.end_ms - each.window.start_ms) // HOUR_MS)
    return found


async def spent_days(
    db: Database, tenant_id: str, calendar: Calendar, window: PeriodWindow
) -> list[SpentDay]:
    """The days that overlap a window, whole, with what they cost."""
    days = days_in(calendar, window)
    if not days:
        return days
    whole = PeriodWindow(days[0].window.start_ms, days[-1].window.end_ms)
    cuts = {cut for each in days for cut in each.window}
    split = {cut - cut % HOUR_MS for cut in cuts if cut % HOUR_MS}
    costs = [each for each in await _of_hours(db, tenant_id, whole) if each[0] not in split]
    if split:
        costs += [
            each for each in await _of_lines(db, tenant_id, split) if whole.start_ms <= each[0] < whole.end_ms
        ]
    add_costs(days, costs)
    return days


def add_costs(days: Sequence[SpentDay], costs: Iterable[tuple[int, int]]) -> None:
    """Put costs at these times into their days. Pure."""
    starts = [each.window.start_ms for each in days]
    for at, nano in costs:
        of = days[bisect_right(starts, at) - 1]
        of.hours[(at - of.window.start_ms) // HOUR_MS] += nano


async def _of_hours(db: Database, tenant_id: str, window: PeriodWindow) -> list[tuple[int, int]]:
    hour, first = col(RollupPrice.hour_ms), window.start_ms - window.start_ms % HOUR_MS
    statement: Any = select(hour, func.sum(col(RollupPrice.amount_nano))).where(
        col(RollupPrice.tenant_id) == tenant_id, hour >= first, hour < window.end_ms
    )
    return await _read(db, statement.group_by(hour))


async def _of_lines(db: Database, tenant_id: str, hours: Iterable[int]) -> list[tuple[int, int]]:
    ended = col(UsageLine.ended_ms)
    minute: Any = ended - ended % MINUTE_MS
    inside = or_(*(and_(ended >= start, ended < start + HOUR_MS) for start in sorted(hours)))
    statement: Any = select(minute, func.sum(col(UsageLine.amount_nano))).where(
        col(UsageLine.tenant_id) == tenant_id, inside
    )
    return await _read(db, statement.group_by(minute))


async def _read(db: Database, statement: Any) -> list[tuple[int, int]]:
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement)).all()
    return [(int(at), int(nano or 0)) for at, nano in rows]
