"""What is told of one key beside a list's facts: who made it, and what it spent this month. Reads only."""

from msgspec import UNSET, UnsetType
from sqlmodel import col, select

from billing.prices.calendars import calendar_of
from billing.reports.usage_report import GroupBy, usage_in
from billing.tables.audit import AuditLog
from billing.tables.tenants import ApiKey, Tenant
from billing.unit_of_work.units import Look
from core.operations import ADMINS, MONEY, OPERATORS, PAYERS, STAFF, MoneyAmount

RECORDED_WITHIN_MS = 3_600_000


async def maker_of(look: Look, key: ApiKey) -> str | UnsetType | None:
    """Who made a key, as the audit log has them; None: it does not say; unset for who may not read it."""
    if look.who.role not in OPERATORS | MONEY | ADMINS:
        return UNSET
    made = ("key.create", key.id) if key.rotated_from is None else ("key.rotate", key.rotated_from)
    statement = (
        select(AuditLog.author)
        .where(
            col(AuditLog.tenant_id) == key.tenant_id,
            col(AuditLog.at_ms) >= key.created_ms,
            col(AuditLog.at_ms) < key.created_ms + RECORDED_WITHIN_MS,
            col(AuditLog.action) == made[0],
            col(AuditLog.target) == made[1],
        )
        .limit(1)
    )
    async with look.db.session() as session:
        return (await session.exec(statement)).first()


async def spent_by(look: Look, owner: Tenant, key: ApiKey) -> MoneyAmount | UnsetType:
    """What a key spent in the tenant's present month; unset for who may see no sums."""
    if look.who.role not in STAFF | PAYERS:
        return UNSET
    calendar = await calendar_of(look.db, owner)
    window = calendar.window(calendar.month_at(look.now_ms()))
    found = await usage_in(look.db, owner.tenant_id, window, GroupBy.KEY, calendar)
    return MoneyAmount.of(sum(each.amount_nano for each in found if each.group == key.id))
