"""Which tenants somebody should look at, and why. Reads only: rows that are open, never what was used."""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlmodel import col

from billing.limits import Mode, Scope
from billing.tables.limits import Budget
from billing.tables.noisy import NoisyFinding
from billing.tables.tenants import Tenant
from billing.tables.wallets import BudgetSpent, Wallet, WalletGrant, WalletOwed
from core.sql.database import Database

EACH_MAX = 1_000


class TenantNeed(StrEnum):
    """Why somebody should look at a tenant: its budget or that of a project is spent, nothing is left in its
    wallet, it owes what no grant paid, or it takes more than its share of a pool."""

    OVER_BUDGET = "over_budget"
    EMPTY_WALLET = "empty_wallet"
    OWES = "owes"
    NOISY = "noisy"


async def tenant_needs(db: Database, at_ms: int) -> dict[str, list[TenantNeed]]:
    """The reasons of each open tenant that has some, at most EACH_MAX of a kind."""
    asked = {
        TenantNeed.OVER_BUDGET: _over_budget(at_ms),
        TenantNeed.EMPTY_WALLET: _empty_wallets(at_ms),
        TenantNeed.OWES: select(col(WalletOwed.tenant_id)).where(col(WalletOwed.owed_nano) > 0),
        TenantNeed.NOISY: select(col(NoisyFinding.tenant_id)).where(col(NoisyFinding.closed_ms).is_(None)),
    }
    found: dict[str, list[TenantNeed]] = defaultdict(list)
    async with db.looking() as connection:
        for need, statement in asked.items():
            owner = statement.selected_columns[0]
            opened = statement.join(Tenant, col(Tenant.tenant_id) == owner).where(
                col(Tenant.closed_ms).is_(None)
            )
            rows: Sequence[Any] = (
                await connection.execute(opened.distinct().order_by(owner).limit(EACH_MAX))
            ).all()
            for (tenant,) in rows:
                found[tenant].append(need)
    return dict(found)


async def count_open_tenants(db: Database) -> int:
    """How many tenants are open."""
    statement = select(func.count()).select_from(Tenant).where(col(Tenant.closed_ms).is_(None))
    async with db.looking() as connection:
        return int((await connection.execute(statement)).scalar_one())


def _over_budget(at_ms: int) -> Any:
    """Owners of a spent budget of the whole tenant or of one project. Those for each user or key, and shadow
    ones, are their own business."""
    spent = (
        (col(BudgetSpent.tenant_id) == col(Budget.tenant_id))
        & (col(BudgetSpent.scope) == col(Budget.scope))
        & (col(BudgetSpent.scope_id) == col(Budget.scope_id))
        & (col(BudgetSpent.period) == col(Budget.period))
        & (col(BudgetSpent.window_start_ms) <= at_ms)
        & (col(BudgetSpent.window_end_ms) > at_ms)
    )
    overridden = col(Budget.override_nano).is_not(None) & (col(Budget.override_until_ms) > at_ms)
    held = (overridden & (col(BudgetSpent.spent_nano) >= col(Budget.override_nano))) | (
        ~overridden & (col(BudgetSpent.spent_nano) >= col(Budget.limit_nano))
    )
    of_one = (col(Budget.scope) == Scope.TENANT) | (
        (col(Budget.scope) == Scope.PROJECT) & (col(Budget.scope_id) != "")
    )
    return (
        select(col(Budget.tenant_id))
        .join(BudgetSpent, spent)
        .where(col(Budget.ended_ms).is_(None), col(Budget.mode) == Mode.ENFORCE, of_one, held)
    )


def _empty_wallets(at_ms: int) -> Any:
    left = (
        select(col(WalletGrant.id))
        .where(
            col(WalletGrant.tenant_id) == col(Wallet.tenant_id),
            col(WalletGrant.left_nano) > 0,
            col(WalletGrant.expires_ms).is_(None) | (col(WalletGrant.expires_ms) > at_ms),
        )
        .exists()
    )
    return select(col(Wallet.tenant_id)).where(~left)
