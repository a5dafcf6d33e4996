"""A tenant's months: those that are closed as they were, and the others in its time zone."""

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import Calendar, ClosedMonth, PeriodWindow, zone_named
from billing.tables.prices import PeriodClose
from billing.tables.tenants import Tenant
from core.sql.database import Database


async def calendar_of(db: Database, tenant: Tenant) -> Calendar:
    """The tenant's months as they stand now."""
    async with db.session() as session:
        return await calendar_in(session, tenant)


async def calendar_in(session: AsyncSession, tenant: Tenant) -> Calendar:
    """The same, in a transaction."""
    statement = select(PeriodClose).where(col(PeriodClose.tenant_id) == tenant.tenant_id)
    rows = (await session.exec(statement)).all()
    closed: dict[int, ClosedMonth] = {}
    for row in rows:
        zone = zone_named(row.time_zone or tenant.time_zone)
        number = Calendar(zone).month_at((row.start_ms + row.end_ms) // 2)
        closed[number] = ClosedMonth(PeriodWindow(row.start_ms, row.end_ms), zone)
    return Calendar(zone_named(tenant.time_zone), closed)
