"""How tenants did lately, and what their month cost so far. Reads only.

What it takes is bounded, however much a tenant uses: of ended requests the newest are read by their index,
all else is sums of hours.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlmodel import col

from billing.periods import HOUR_MS, Calendar, PeriodWindow
from billing.prices.calendars import calendars_of
from billing.reports.usage_report import GroupBy, usage_in
from billing.tables.ledger import RollupHour
from billing.tables.tenants import Tenant, UsageRow
from core.sql.database import Database

ENDS_MAX = 2_000  # ended requests that are looked at
DAY_HOURS = 24


class RecentEnds(NamedTuple):
    """Requests that ended since a time, at most ENDS_MAX, the newest. `more`: older ones of that time were
    not looked at. `first_token_p95_ms` None: none of them had a first token."""

    ended: int
    errors: int
    first_token_p95_ms: int | None
    more: bool


class HourSums(NamedTuple):
    """What ended in an hour, and its cost."""

    hour_ms: int
    requests: int
    errors: int
    amount_nano: int


class TenantUse(NamedTuple):
    """What ended in the last day's hours, and the cost of the month so far."""

    requests: int = 0
    errors: int = 0
    month_nano: int = 0


async def recent_ends(db: Database, tenant_id: str, since_ms: int) -> RecentEnds:
    """What ended of a tenant since then."""
    columns = (UsageRow.reason, UsageRow.accepted_ms, UsageRow.first_token_ms)
    statement: Any = (
        select(*(col(each) for each in columns))
        .where(col(UsageRow.tenant_id) == tenant_id, col(UsageRow.ended_ms) >= since_ms)
        .order_by(col(UsageRow.ended_ms).desc())
        .limit(ENDS_MAX + 1)
    )
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement)).all()
    read = rows[:ENDS_MAX]
    waits = sorted(first - accepted for _, accepted, first in read if first)
    errors = sum(reason == "error" for reason, *_ in read)
    return RecentEnds(len(read), errors, _p95(waits), len(rows) > ENDS_MAX)


async def last_hours(db: Database, tenant_id: str, now_ms: int) -> list[HourSums]:
    """The last day by the hour, the one that runs included, oldest first."""
    first = now_ms - now_ms % HOUR_MS - (DAY_HOURS - 1) * HOUR_MS
    hour = col(RollupHour.hour_ms)
    sums = [func.sum(getattr(RollupHour, name)) for name in ("requests", "errors", "amount_nano")]
    statement: Any = select(hour, *sums).where(col(RollupHour.tenant_id) == tenant_id, hour >= first)
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement.group_by(hour))).all()
    found = {int(at): HourSums(int(at), *map(int, rest)) for at, *rest in rows}
    hours = range(first, first + DAY_HOURS * HOUR_MS, HOUR_MS)
    return [found.get(at, HourSums(at, 0, 0, 0)) for at in hours]


async def cost_in(db: Database, tenant_id: str, window: PeriodWindow, calendar: Calendar) -> int:
    """What a window costs so far, in nano."""
    return sum(each.amount_nano for each in await usage_in(db, tenant_id, window, GroupBy.NOTHING, calendar))


async def sums_of(db: Database, tenants: Sequence[Tenant], now_ms: int) -> dict[str, TenantUse]:
    """The sums of each of these tenants, by its own month."""
    calendars = await calendars_of(db, tenants)
    by_month: dict[PeriodWindow, list[str]] = defaultdict(list)
    for tenant, calendar in calendars.items():
        by_month[calendar.window(calendar.month_at(now_ms))].append(tenant)
    found = {row.tenant_id: TenantUse() for row in tenants}
    for month, ids in by_month.items():
        found |= await _sums(db, ids, month.start_ms, now_ms - DAY_HOURS * HOUR_MS)
        if month.start_ms % HOUR_MS:  # of a zone of half hours: its first hour is in two months
            found |= await _exact(db, ids, month, calendars, found)
    return found


async def _sums(db: Database, ids: Sequence[str], month_ms: int, day_ms: int) -> dict[str, TenantUse]:
    tenant, hour = col(RollupHour.tenant_id), col(RollupHour.hour_ms)
    requests: Any = func.sum(col(RollupHour.requests)).filter(hour >= day_ms)
    errors: Any = func.sum(col(RollupHour.errors)).filter(hour >= day_ms)
    amount: Any = func.sum(col(RollupHour.amount_nano)).filter(hour >= month_ms)
    statement: Any = select(tenant, requests, errors, amount).where(
        tenant.in_(ids), hour >= min(month_ms, day_ms)
    )
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement.group_by(tenant))).all()
    return {id: TenantUse(*(int(each or 0) for each in sums)) for id, *sums in rows}


async def _exact(
    db: Database,
    ids: Sequence[str],
    month: PeriodWindow,
    calendars: Mapping[str, Calendar],
    found: Mapping[str, TenantUse],
) -> dict[str, TenantUse]:
    """The same with the month's cost read with its edges."""
    costs = {id: await cost_in(db, id, month, calendars[id]) for id in ids}
    return {id: found[id]._replace(month_nano=nano) for id, nano in costs.items()}


def _p95(ordered: Sequence[int]) -> int | None:
    """By nearest rank. Pure."""
    return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None
