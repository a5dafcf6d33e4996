"""The sums of seeded tenants' budgets, kept as posting keeps them."""

from collections.abc import Collection
from typing import Any

from billing.booking.write import lock_heads
from billing.budgets.spent import TENANT, BudgetSum, SpendingScope, open_budgets, row_key, spent_by_owner
from billing.tables.wallets import BudgetSpent, BudgetWatermark
from core.sql.database import Database, upsert


async def keep_budgets(db: Database, tenant_id: str, at_ms: int) -> None:
    """Keep the sums of a tenant's open budgets in the windows that an instant is in, by its lines."""
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        connection = await session.connection()
        rows: list[dict[str, Any]] = []
        for of in await open_budgets(session, [tenant_id]):
            windows = {(each.scope, each.period): of.window_of(each.period, at_ms) for each in of.budgets}
            for (scope, period), window in sorted(windows.items()):
                owners = {
                    each.scope_id for each in of.budgets if (each.scope, each.period) == (scope, period)
                }
                spent = await connection.execute(spent_by_owner(tenant_id, scope, window))
                found: list[Any] = list(spent.all())
                for name, nano in found:
                    if _counts(scope, name, owners):
                        counted = SpendingScope(scope, "" if scope == TENANT else name)
                        key = row_key(tenant_id, BudgetSum(counted, period, window))
                        rows.append({**key, "spent_nano": int(nano)})
        await upsert(session, rows, BudgetSpent)
        mark = {"tenant_id": tenant_id, "line_seq": head.line_seq, "since_ms": 0}
        await upsert(session, [mark], BudgetWatermark)


def _counts(scope: str, name: str, owners: Collection[str]) -> bool:
    """True for the tenant, and for an owner whom a budget names or one for each of a kind counts. Pure."""
    return scope == TENANT or (bool(name) and ("" in owners or name in owners))
