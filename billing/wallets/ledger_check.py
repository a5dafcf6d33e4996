"""Compares a tenant's wallet with its books. Reads only; for reconciliation."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import aliased
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.grant_spending import WALLET, WALLET_END, account_of
from billing.ledger.transactions import LineKind, TxnKind
from billing.tables.ledger import LedgerEntry, LedgerTxn, UsageLine
from billing.tables.wallets import Wallet, WalletGrant, WalletUse
from billing.wallets.owed import owed_of
from core.sql.database import Database

SPENT = (TxnKind.USAGE.value, TxnKind.ADJUST.value, TxnKind.SETTLE.value)
TAKEN = (TxnKind.VOID.value, TxnKind.CLAW_BACK.value, TxnKind.PAY_OUT.value)
LAPSED = (TxnKind.EXPIRE.value, TxnKind.REVIVE.value)


async def wallet_faults(db: Database, tenant_id: str, whole: bool = True) -> list[str]:
    """Differences between a wallet, the ledger's accounts and the lines, in one snapshot; empty where all is
    right, or where there is no wallet. `whole` False leaves out the lines, which is quicker."""
    async with db.snapshot() as session:
        wallet = await session.get(Wallet, tenant_id)
        if wallet is None:
            return []
        faults = await _grant_faults(session, wallet)
        posted_nano = await _posted(session, wallet) if whole else wallet.posted_nano
    if posted_nano != wallet.posted_nano:
        faults.append(f"the wallet says {wallet.posted_nano} nano were posted, the lines {posted_nano}")
    return faults


async def _grant_faults(session: AsyncSession, wallet: Wallet) -> list[str]:
    connection, tenant_id = await session.connection(), wallet.tenant_id
    of_grants = select(
        col(WalletGrant.id),
        col(WalletGrant.kind),
        col(WalletGrant.left_nano),
        col(WalletGrant.amount_nano),
        col(WalletGrant.lapsed_nano),
        col(WalletGrant.taken_nano),
    )
    grants = (await connection.execute(of_grants.where(col(WalletGrant.tenant_id) == tenant_id))).all()
    of_uses = select(col(WalletUse.grant_id), func.sum(col(WalletUse.amount_nano))).where(
        col(WalletUse.tenant_id) == tenant_id
    )
    rows = (await connection.execute(of_uses.group_by(col(WalletUse.grant_id)))).all()
    used = {grant_id: int(amount) for grant_id, amount in rows}
    accounts = await _accounts(session, tenant_id)
    faults: list[str] = []
    for grant_id, kind, left_nano, amount_nano, lapsed_nano, taken_nano in grants:
        balance, spent, lapsed, taken = accounts.pop(account_of(kind, grant_id), (0, 0, 0, 0))
        if -balance != left_nano:
            faults.append(f"grant {grant_id}: {left_nano} nano are left, the ledger says {-balance}")
        if spent != used.get(grant_id, 0):
            faults.append(f"grant {grant_id}: its uses say {used.get(grant_id, 0)} nano, the ledger {spent}")
        if not 0 <= lapsed_nano <= lapsed:  # grants that expired before lapses were counted have none
            faults.append(f"grant {grant_id}: {lapsed_nano} nano lapsed, the ledger says {lapsed}")
        if taken_nano != taken:
            faults.append(f"grant {grant_id}: {taken_nano} nano were taken back, the ledger says {taken}")
        if not 0 <= left_nano <= amount_nano:
            faults.append(f"grant {grant_id}: {left_nano} of {amount_nano} nano are left")
    faults += [f"account {account} is of no grant" for account in sorted(accounts)]
    owed_nano, unpaid_nano = await owed_of(session, tenant_id), wallet.posted_nano - sum(used.values())
    if owed_nano != unpaid_nano:
        faults.append(f"requests owe {owed_nano} nano, the wallet says that {unpaid_nano} were not paid")
    return faults


async def _accounts(session: AsyncSession, tenant_id: str) -> dict[str, tuple[int, int, int, int]]:
    """(balance, debits of usage and corrections, of expiry, and of money taken back) of each grant's
    account."""
    amount = col(LedgerEntry.amount_nano)
    spent = case((col(LedgerTxn.kind).in_(SPENT), amount), else_=0)
    lapsed = case((col(LedgerTxn.kind).in_(LAPSED), amount), else_=0)
    taken = case((col(LedgerTxn.kind).in_(TAKEN), amount), else_=0)
    sums: list[Any] = [func.sum(each) for each in (amount, spent, lapsed, taken)]
    statement = (
        select(col(LedgerEntry.account), *sums)
        .join(
            LedgerTxn,
            (col(LedgerTxn.tenant_id) == col(LedgerEntry.tenant_id))
            & (col(LedgerTxn.seq) == col(LedgerEntry.txn_seq)),
        )
        .where(
            col(LedgerEntry.tenant_id) == tenant_id,
            col(LedgerEntry.account) >= WALLET,
            col(LedgerEntry.account) < WALLET_END,
        )
        .group_by(col(LedgerEntry.account))
    )
    found: Sequence[Any] = (await (await session.connection()).execute(statement)).all()
    return {row[0]: (int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in found}


async def _posted(session: AsyncSession, wallet: Wallet) -> int:
    """Cost of requests whose first line came after the wallet was opened."""
    first = aliased(UsageLine)
    statement = (
        select(func.coalesce(func.sum(col(UsageLine.amount_nano)), 0))
        .join(
            first,
            (col(first.tenant_id) == col(UsageLine.tenant_id))
            & (col(first.request_id) == col(UsageLine.request_id))
            & (col(first.number) == 0),
        )
        .where(
            col(UsageLine.tenant_id) == wallet.tenant_id,
            col(UsageLine.kind).in_((LineKind.USAGE.value, LineKind.ADJUST.value)),
            col(first.seq) > wallet.opened_line_seq,
        )
    )
    return int((await (await session.connection()).execute(statement)).scalar_one())
