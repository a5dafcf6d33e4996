"""What the books say was spent, for Redis to count on from there."""

from sqlmodel import col, func, select

from billing.ledger_tables import LedgerHead, UsageLine
from billing.limits import WALLET, MoneyLimit, Scope
from billing.tables import UsageRow
from billing.wallets import wallet_state
from core.clock import now_ms
from core.database import Database

_SCOPES = {
    Scope.PROJECT: UsageRow.project_id,
    Scope.KEY: UsageRow.key_id,
    Scope.USER: UsageRow.user_id,
    Scope.MODEL: UsageRow.model,
}


async def spent(db: Database, tenant_id: str, limit: MoneyLimit) -> tuple[int, int]:
    """What is spent of a limit, in nano-USD, and the last line of the tenant's books that is in it."""
    if limit.period == WALLET:
        wallet = await wallet_state(db, tenant_id, now_ms())
        return (wallet.posted_nano, wallet.line_seq) if wallet is not None else (0, 0)
    accepted = col(UsageRow.accepted_ms)
    request = (col(UsageRow.tenant_id) == col(UsageLine.tenant_id)) & (
        col(UsageRow.request_id) == col(UsageLine.request_id)
    )
    amounts = (
        select(func.coalesce(func.sum(UsageLine.amount_nano), 0))
        .select_from(UsageLine)
        .join(UsageRow, request)
        .where(
            col(UsageRow.tenant_id) == tenant_id,
            accepted >= limit.window.start_ms,
            accepted < limit.window.end_ms,
        )
    )
    if limit.scope is not Scope.TENANT:
        amounts = amounts.where(col(_SCOPES[limit.scope]) == limit.scope_id)
    head = select(LedgerHead.line_seq).where(col(LedgerHead.tenant_id) == tenant_id)
    # One statement sees one state of the books.
    statement = select(amounts.scalar_subquery(), head.scalar_subquery())
    async with db.session() as session:
        amount, line_seq = (await session.exec(statement)).one()
    return int(amount), int(line_seq or 0)
