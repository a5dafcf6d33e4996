"""Trial of a commitment before it is made. Changes nothing."""

from billing.closing.period_close import true_ups_in
from billing.closing.period_commitments import NewCommitment
from billing.prices.calendars import calendar_of
from billing.tables.tenants import Tenant
from core.sql.database import Database


async def commitment_charge_so_far(db: Database, tenant: Tenant, new: NewCommitment, now: int) -> int:
    """Amount that a commitment would add to the running month so far, in nano-USD; 0 where it begins
    later."""
    calendar = await calendar_of(db, tenant)
    month = calendar.window(calendar.month_at(now))
    if not new.months.start_ms <= month.start_ms < new.months.end_ms:
        return 0
    async with db.snapshot() as session:
        _, without = await true_ups_in(session, tenant.tenant_id, month)
        _, with_it = await true_ups_in(session, tenant.tenant_id, month, [new.terms])
    return sum(each.difference_nano for each in with_it) - sum(each.difference_nano for each in without)
