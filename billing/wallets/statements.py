"""Movements of a wallet with a running balance, and the rest of its grants: now or as of any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlmodel import col
from sqlmodel import select as select_rows
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.grant_spending import WALLET, WALLET_END, account_of
from billing.tables.ledger import LedgerEntry, LedgerTxn
from billing.tables.wallets import WalletGrant
from core.sql.database import Database

LISTED_MAX = 10_000


@dataclass(frozen=True)
class WalletMovement:
    """One transaction that moved a wallet. `amount_nano`: positive where money came in; `balance_nano`: the
    wallet's balance after it, including expired grants that were not yet booked."""

    seq: int
    posted_ms: int
    kind: str
    cause: str
    amount_nano: int
    balance_nano: int


@dataclass(frozen=True)
class GrantLeft:
    """A grant and its rest at a time. `expired`: the rest is booked as breakage, or soon will be."""

    grant: WalletGrant
    left_nano: int
    expired: bool


async def statement(
    db: Database, tenant_id: str, as_of_ms: int, last: int = LISTED_MAX
) -> Sequence[WalletMovement]:
    """The last movements of a wallet that were booked up to a time, oldest first."""
    async with db.session() as session:
        balance = -sum((await _balances(session, tenant_id, as_of_ms)).values())
        amount: Any = func.sum(col(LedgerEntry.amount_nano))
        columns = (LedgerTxn.seq, LedgerTxn.posted_ms, LedgerTxn.kind, LedgerTxn.idempotency_key)
        rows = (
            _of_wallet(tenant_id, as_of_ms, *(col(column) for column in columns), amount)
            .group_by(*(col(column) for column in columns))
            .order_by(col(LedgerTxn.seq).desc())
            .limit(min(last, LISTED_MAX))
        )
        found: Sequence[Any] = (await (await session.connection()).execute(rows)).all()
    movements: list[WalletMovement] = []
    for seq, posted_ms, kind, cause, debited in found:
        movements.append(WalletMovement(seq, posted_ms, kind, cause, -int(debited), balance))
        balance += int(debited)
    return movements[::-1]


async def grants_as_of(db: Database, tenant_id: str, as_of_ms: int) -> list[GrantLeft]:
    """Grants that existed at a time, oldest first, with their rest by the books of that time."""
    async with db.session() as session:
        balances = await _balances(session, tenant_id, as_of_ms)
        of_grants = select_rows(WalletGrant).where(
            col(WalletGrant.tenant_id) == tenant_id, col(WalletGrant.created_ms) <= as_of_ms
        )
        rows = (await session.exec(of_grants.order_by(col(WalletGrant.id)))).all()
    return [
        GrantLeft(
            row,
            -balances.get(account_of(row.kind, row.id), 0),
            row.expires_ms is not None and row.expires_ms <= as_of_ms,
        )
        for row in rows
    ]


async def _balances(session: AsyncSession, tenant_id: str, as_of_ms: int) -> dict[str, int]:
    """Balance of each grant's account; credits are negative."""
    account = col(LedgerEntry.account)
    amount: Any = func.sum(col(LedgerEntry.amount_nano))
    rows = _of_wallet(tenant_id, as_of_ms, account, amount).group_by(account)
    found: Sequence[Any] = (await (await session.connection()).execute(rows)).all()
    return {name: int(nano) for name, nano in found}


def _of_wallet(tenant_id: str, as_of_ms: int, *columns: Any) -> Any:
    """Select these columns of a wallet's entries that were booked up to a time."""
    return (
        select(*columns)
        .select_from(LedgerEntry)
        .join(
            LedgerTxn,
            (col(LedgerTxn.tenant_id) == col(LedgerEntry.tenant_id))
            & (col(LedgerTxn.seq) == col(LedgerEntry.txn_seq)),
        )
        .where(
            col(LedgerEntry.tenant_id) == tenant_id,
            col(LedgerEntry.account) >= WALLET,
            col(LedgerEntry.account) < WALLET_END,
            col(LedgerTxn.posted_ms) <= as_of_ms,
        )
    )
