"""Owed amounts of prepaid tenants: the part of requests that no grant paid, and its payment by the next
grant.

A request may cost more than is left where a correction adds to it, or where Redis lost the money held for it.
Other debts of the tenant (usage from before the wallet, commitments, minimums) are not counted here: no
wallet pays them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import write
from billing.ledger.grant_rows import add_owed
from billing.ledger.grant_spending import account_of
from billing.ledger.rows import UseRow
from billing.ledger.transactions import RECEIVABLE, TxnKind, post
from billing.tables.ledger import LedgerHead, UsageLine
from billing.tables.tenants import UsageRow
from billing.tables.wallets import Wallet, WalletGrant, WalletOwed, WalletUse
from core.sql.database import Database, insert_rows

AT_ONCE = 10_000
OLDEST_FIRST = (col(UsageRow.accepted_ms), col(WalletOwed.request_id))


class OwedTerm(StrEnum):
    """Treatment of owed amounts: the next grant pays them first, or they stay to be invoiced."""

    NEXT_GRANT = "next_grant"
    INVOICED = "invoiced"


@dataclass(frozen=True)
class Owed:
    """Amount that one request owes, and its payer."""

    request_id: str
    owed_nano: int
    project_id: str
    cost_center_id: str
    accepted_ms: int


async def owed_of(session: AsyncSession, tenant_id: str) -> int:
    """Sum that a tenant's requests owe, in nano-USD."""
    total = select(func.coalesce(func.sum(col(WalletOwed.owed_nano)), 0))
    statement = total.where(col(WalletOwed.tenant_id) == tenant_id)
    return int((await (await session.connection()).execute(statement)).scalar_one())


async def used_of(session: AsyncSession, tenant_id: str) -> int:
    """Sum that grants paid of a tenant's requests, in nano-USD."""
    total = select(func.coalesce(func.sum(col(WalletUse.amount_nano)), 0))
    statement = total.where(col(WalletUse.tenant_id) == tenant_id)
    return int((await (await session.connection()).execute(statement)).scalar_one())


async def owed_by(db: Database, tenant_id: str) -> int:
    """Sum that a tenant's requests owe, in nano-USD, read in a transaction of its own."""
    return (await owed_by_each(db, [tenant_id])).get(tenant_id, 0)


async def owed_by_each(db: Database, tenants: Iterable[str]) -> dict[str, int]:
    """Sums owed by these tenants, in nano-USD, without tenants that owe nothing."""
    tenant = col(WalletOwed.tenant_id)
    total = select(tenant, func.sum(col(WalletOwed.owed_nano)))
    statement = total.where(tenant.in_(sorted(tenants))).group_by(tenant)
    async with db.looking() as connection:
        return {name: int(nano) for name, nano in (await connection.execute(statement)).all()}


async def owing_requests(session: AsyncSession, tenant_id: str, limit: int) -> list[Owed]:
    """The requests that owe, the oldest first."""
    statement = owing_statement(tenant_id).order_by(*OLDEST_FIRST).limit(limit)
    return [Owed(*row) for row in (await (await session.connection()).execute(statement)).all()]


def owing_statement(tenant_id: str) -> Any:
    """The statement of the requests that owe, of the columns of `Owed`. Pure."""
    return (
        select(
            col(WalletOwed.request_id),
            col(WalletOwed.owed_nano),
            col(UsageRow.project_id),
            col(UsageLine.cost_center_id),
            col(UsageRow.accepted_ms),
        )
        .join(
            UsageRow,
            (col(UsageRow.tenant_id) == col(WalletOwed.tenant_id))
            & (col(UsageRow.request_id) == col(WalletOwed.request_id)),
        )
        .join(
            UsageLine,
            (col(UsageLine.tenant_id) == col(WalletOwed.tenant_id))
            & (col(UsageLine.request_id) == col(WalletOwed.request_id))
            & (col(UsageLine.number) == 0),
        )
        .where(col(WalletOwed.tenant_id) == tenant_id)
    )


def allot_payment(owing: Sequence[Owed], left_nano: int) -> list[tuple[Owed, int]]:
    """Divide a payment among owing requests in their order: (request, amount) of those that get some.
    Pure."""
    paid: list[tuple[Owed, int]] = []
    for each in owing:
        amount = min(each.owed_nano, left_nano)
        if amount <= 0:
            break
        paid.append((each, amount))
        left_nano -= amount
    return paid


async def pay_owed(session: AsyncSession, head: LedgerHead, grant: WalletGrant, now: int) -> int:
    """Pay the tenant's owing requests from a grant, oldest first, at most AT_ONCE of them; return the sum
    paid. The caller holds the head of the books."""
    paid = allot_payment(await owing_requests(session, head.tenant_id, AT_ONCE), grant.left_nano)
    if not paid:
        return 0
    by_whom: dict[tuple[str, str], int] = {}
    for each, amount in paid:
        whom = each.project_id, each.cost_center_id
        by_whom[whom] = by_whom.get(whom, 0) + amount
    account = account_of(grant.kind, grant.id)
    entries = [
        entry
        for (project, center), amount in sorted(by_whom.items())
        for entry in ((account, amount, project, center), (RECEIVABLE, -amount, project, center))
    ]
    posting = post(head, TxnKind.SETTLE, f"settle:{grant.id}", [], entries, now)
    await write(session, [posting], [])
    seq = posting.head.txn_seq
    uses = [UseRow(head.tenant_id, each.request_id, seq, grant.id, amount) for each, amount in paid]
    await insert_rows(session, uses, WalletUse)
    await add_owed(session, {(head.tenant_id, each.request_id): -amount for each, amount in paid})
    total = sum(amount for _, amount in paid)
    grant.left_nano -= total
    await session.flush()
    return total


async def set_owed_term(db: Database, tenant_id: str, term: OwedTerm) -> bool:
    """Set the treatment of a tenant's owed amounts from now on; False where it has no wallet."""
    async with db.transaction() as session:
        wallet = await session.get(Wallet, tenant_id, with_for_update=True)
        if wallet is None:
            return False
        before = wallet.model_dump()
        wallet.owed_term = term.value
        await record(session, tenant_id, "wallet.owed", tenant_id, before, wallet)
    return True
