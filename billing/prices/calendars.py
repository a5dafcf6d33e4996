"""A tenant's months: closed ones as they were closed, others in its time zone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import Calendar, ClosedMonth, PeriodWindow, zone_named
from billing.tables.prices import PeriodClose
from billing.tables.tenants import Tenant
from core.sql.database import Database


async def calendar_of(db: Database, tenant: Tenant) -> Calendar:
    """Load the tenant's months."""
    async with db.session() as session:
        return await calendar_in(session, tenant)


async def calendar_in(session: AsyncSession, tenant: Tenant) -> Calendar:
    """Load the tenant's months in the caller's session."""
    statement = select(PeriodClose).where(col(PeriodClose.tenant_id) == tenant.tenant_id)
    return _calendar(tenant, (await session.exec(statement)).all())


async def calendars_of(db: Database, tenants: Sequence[Tenant]) -> dict[str, Calendar]:
    """Load the months of several tenants, by their ids."""
    statement = select(PeriodClose).where(col(PeriodClose.tenant_id).in_([row.tenant_id for row in tenants]))
    closed: dict[str, list[PeriodClose]] = defaultdict(list)
    async with db.session() as session:
        for row in (await session.exec(statement)).all():
            closed[row.tenant_id].append(row)
    return {row.tenant_id: _calendar(row, closed[row.tenant_id]) for row in tenants}


def _calendar(tenant: Tenant, rows: Iterable[PeriodClose]) -> Calendar:
    closed: dict[int, ClosedMonth] = {}
    for row in rows:
        zone = zone_named(row.time_zone)
        number = Calendar(zone).month_at((row.start_ms + row.end_ms) // 2)
        closed[number] = ClosedMonth(PeriodWindow(row.start_ms, row.end_ms), zone)
    return Calendar(zone_named(tenant.time_zone), closed)
