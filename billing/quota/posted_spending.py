"""Spending by the books, as the start of Redis' counts."""

from billing.budgets.spent import SpendingScope
from billing.limits import WALLET, MoneyLimit
from billing.tables.ledger import LedgerHead
from billing.wallets import budgets
from billing.wallets.wallets import wallet_state
from core.clock import now_ms
from core.sql.database import Database


async def posted_of_limit(db: Database, tenant_id: str, limit: MoneyLimit) -> tuple[int, int]:
    """Spending that counts in a limit, in nano-USD, and the last line of the tenant's books that it
    includes."""
    if limit.period == WALLET:
        wallet = await wallet_state(db, tenant_id, now_ms())
        if wallet is None:  # of restored books that do not have it yet
            return 0, await last_line(db, tenant_id)
        return wallet.posted_nano, wallet.line_seq
    counted = SpendingScope(limit.scope.value, limit.scope_id)
    found = await budgets.budget_spending(db, tenant_id, counted, limit.period, limit.window)
    return found.nano, found.line_seq


async def last_line(db: Database, tenant_id: str) -> int:
    """The last line of a tenant's books; 0: there is none."""
    async with db.session() as session:
        head = await session.get(LedgerHead, tenant_id)
    return head.line_seq if head is not None else 0
