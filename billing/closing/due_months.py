"""Months that are over and are to be closed: which is the next of a tenant."""

from sqlmodel import col, func, select

from billing.closing.period_commitments import first_owed_ms
from billing.periods import Calendar
from billing.tables.ledger import UsageLine
from billing.tables.tenants import Tenant
from core.sql.database import Database


async def next_due_month(
    db: Database, tenant: Tenant, calendar: Calendar, now_ms: int, after_ms: int
) -> int | None:
    """The number of the next month to close, one that ended `after_ms` ago at least; None: none is due. The
    first is the one in which something was used or owed."""
    first = None if calendar.closed else await _first_ms(db, tenant.tenant_id)
    return due_month(calendar, first, tenant.closed_ms, now_ms, after_ms)


def due_month(
    calendar: Calendar, first_ms: int | None, tenant_closed_ms: int | None, now_ms: int, after_ms: int
) -> int | None:
    """As `next_due_month`, pure. Of a tenant that is closed, months end with the one in which it was."""
    if calendar.closed:
        number = max(calendar.closed) + 1
    elif first_ms is not None:
        number = calendar.month_at(first_ms)
    else:
        return None
    window = calendar.window(number)
    is_its = tenant_closed_ms is None or window.start_ms <= tenant_closed_ms
    return number if is_its and window.end_ms + after_ms <= now_ms else None


async def _first_ms(db: Database, tenant_id: str) -> int | None:
    used = select(func.min(UsageLine.ended_ms)).where(col(UsageLine.tenant_id) == tenant_id)
    async with db.session() as session:
        found = ((await session.exec(used)).one(), await first_owed_ms(session, tenant_id))
    return min((each for each in found if each is not None), default=None)
