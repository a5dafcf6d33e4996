"""Writes the settings of a seeded installation into a database, and money into wallets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlmodel import col, select

from billing.ledger.grant_spending import GrantKind
from billing.seeding.bulk import write_rows
from billing.seeding.changes import SeededRows, chained_rows
from billing.seeding.platform_rows import desk_rows, plan_rows, pool_rows, staff_rows
from billing.seeding.shapes import SeedShape, tenant_shapes
from billing.seeding.tenant_rows import FilledTenant, UsageSource, seeded_tenant
from billing.tables.audit import AuditHead
from billing.wallets.wallets import NewGrant, grant
from core.sql.database import Database, upsert

EVENT_NANO = 250_000  # about what an event costs
GRANTS = 4


@dataclass(frozen=True)
class FilledInstallation:
    """What was written. `admins`: one of each tenant, by its id; `changes`: rows of the audit log."""

    sources: Sequence[UsageSource]
    admins: dict[str, str]
    changes: int


async def seed_settings(db: Database, shape: SeedShape, told: Callable[[str], None]) -> FilledInstallation:
    """Write tenants and all that belongs to them, with their audit chains. The database has none of them
    yet."""
    rows, plans = plan_rows(shape)
    tenants = [seeded_tenant(shape, of, plans) for of in tenant_shapes(shape)]
    ids = [each.source.tenant for each in tenants]
    for part in (
        *(each.rows for each in tenants),
        staff_rows(shape),
        pool_rows(shape, ids),
        desk_rows(shape, ids),
    ):
        rows.add(part)
    await _write(db, rows)
    told(f"{len(tenants):,} tenants, {len(rows.changes):,} changes in their audit chains")
    for each in tenants:
        if each.shape.prepaid:
            await _give_money(db, each)
    told("the prepaid ones have money")
    admins = {each.source.tenant: each.admin for each in tenants}
    return FilledInstallation([each.source for each in tenants], admins, len(rows.changes))


async def _write(db: Database, rows: SeededRows) -> None:
    chains = sorted({change.chain for change in rows.changes})
    known = select(AuditHead).where(col(AuditHead.tenant_id).in_(chains))
    async with db.session() as session:
        before = {head.tenant_id: head for head in (await session.exec(known)).all()}
    heads, audited = chained_rows(rows.changes, before)
    await write_rows(db, [row for change in rows.changes for row in change.rows])
    await write_rows(db, rows.others)
    await write_rows(db, audited)
    async with db.transaction() as session:
        await upsert(session, [head.model_dump() for head in heads], AuditHead)


async def _give_money(db: Database, of: FilledTenant) -> None:
    """Enough for its events, but for a few of every tenth: those are owed."""
    whole = max(1, of.source.events) * EVENT_NANO
    part = whole * (19 if of.shape.rank % 10 == 1 else 40) // 20 // GRANTS
    for number in range(GRANTS):
        kind = GrantKind.PROMO if number == 0 else GrantKind.PAID
        await grant(db, of.source.tenant, NewGrant(kind, part, f"seeded-{number}", author="Ann"))
