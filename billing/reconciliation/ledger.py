"""R1, R2 and R7 of one tenant: its books against themselves, from the last verified position or whole.

Books only grow (INV-25), so rows below the head that was read first cannot change during the read.
"""

from typing import Any

import msgspec
from sqlalchemy import select
from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.verify import verify_log
from billing.ledger.verify import Verified, derived_faults, follow_chain
from billing.reconciliation.comparison import (
    BookSums,
    Check,
    Comparison,
    audit_chain_comparison,
    lines_and_revenue,
    receivable,
)
from billing.tables.ledger import LedgerEntry, LedgerHead, LedgerTxn, UsageLine
from billing.tables.reconciliation import ReconMark
from billing.tables.wallets import Wallet
from billing.wallets.budgets import budget_faults
from billing.wallets.ledger_check import wallet_faults
from billing.wallets.owed import owed_of, used_of
from core.sql.database import Database

LEDGER = "ledger"
AUDIT = "audit"


async def compare_ledger(
    db: Database, tenant_id: str, now_ms: int, whole: bool = False
) -> tuple[list[Comparison], BookSums]:
    """Compare the books; return the comparisons, and the sums up to their head. `whole`: from the first row.

    The verified position is stored, unless anything in the books is wrong."""
    async with db.session() as session:
        head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
        mark = await _mark(session, tenant_id, LEDGER, whole)
        before = msgspec.convert(mark.sums, BookSums)
        sums = before.plus(await _sums_between(session, mark, head))
        found = Verified(tenant_id)
        await follow_chain(session, head, found, mark.seq, mark.sha256)
    compared = [*lines_and_revenue(tenant_id, sums), receivable(tenant_id, sums)]
    faults = found.faults
    compared.append(audit_chain_comparison(tenant_id, LEDGER, len(faults), faults[0] if faults else ""))
    if not any(each.difference for each in compared) and head.txn_seq > mark.seq:
        await _keep(db, _mark_at(head, sums, now_ms))
    return compared, sums


async def compare_sums(db: Database, tenant_id: str) -> tuple[list[Comparison], BookSums]:
    """R1 and R2 of the books by their sums alone, from the first row; return the sums too. What only the
    chain shows is not seen."""
    async with db.session() as session:
        head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
        sums = await _sums_between(session, await _mark(session, tenant_id, LEDGER, whole=True), head)
    return [*lines_and_revenue(tenant_id, sums), receivable(tenant_id, sums)], sums


async def _sums_between(session: AsyncSession, mark: ReconMark, head: LedgerHead) -> BookSums:
    """Sums of the rows after the mark, up to the head."""
    tenant = head.tenant_id
    requests: Any = func.count().filter(col(UsageLine.number) == 0)
    kind_and_meter = col(UsageLine.kind), col(UsageLine.meter)
    quantity, amount = func.sum(col(UsageLine.quantity)), func.sum(col(UsageLine.amount_nano))
    of_lines = (
        select(*kind_and_meter, quantity, amount, requests)
        .where(
            col(UsageLine.tenant_id) == tenant,
            col(UsageLine.seq) > mark.line_seq,
            col(UsageLine.seq) <= head.line_seq,
        )
        .group_by(*kind_and_meter)
    )
    of_entries = (
        select(col(LedgerTxn.kind), col(LedgerEntry.account), func.sum(col(LedgerEntry.amount_nano)))
        .join(
            LedgerTxn,
            (col(LedgerTxn.tenant_id) == col(LedgerEntry.tenant_id))
            & (col(LedgerTxn.seq) == col(LedgerEntry.txn_seq)),
        )
        .where(
            col(LedgerEntry.tenant_id) == tenant,
            col(LedgerEntry.txn_seq) > mark.seq,
            col(LedgerEntry.txn_seq) <= head.txn_seq,
        )
        .group_by(col(LedgerTxn.kind), col(LedgerEntry.account))
    )
    sums = BookSums()
    connection = await session.connection()
    for kind, meter, units, nano, count in await connection.execute(of_lines):
        sums.quantities[f"{kind}:{meter}"] = int(units)
        sums.amounts[f"{kind}:{meter}"] = int(nano)
        sums.requests += int(count)
    for kind, account, nano in await connection.execute(of_entries):
        sums.accounts[f"{kind}:{account}"] = int(nano)
    return sums


async def compare_audit(db: Database, tenant_id: str, now_ms: int, whole: bool = False) -> Comparison:
    """R7 of an audit log. PLATFORM: the log of changes that belong to no tenant."""
    async with db.session() as session:
        mark = await _mark(session, tenant_id, AUDIT, whole)
    found = await verify_log(db, tenant_id, mark.seq, mark.sha256)
    if found.rows and not found.faults:
        seq = mark.seq + found.rows
        kept = ReconMark(tenant_id=tenant_id, chain=AUDIT, seq=seq, sha256=found.sha256, sums={})
        kept.verified_ms = now_ms
        await _keep(db, kept)
    faults = found.faults
    return audit_chain_comparison(tenant_id, AUDIT, len(faults), faults[0] if faults else "")


async def compare_derived(db: Database, tenant_id: str, whole: bool = False) -> list[Comparison]:
    """R7 of what is derived from the books: wallets, budgets' sums, and, where `whole`, rollups by key and
    rows that nobody booked. `whole` False runs only the quick checks."""
    beside = await derived_faults(db, tenant_id) if whole else []
    wallet = await wallet_faults(db, tenant_id, whole)
    budgets = await budget_faults(db, tenant_id, whole)
    faults_of = {"wallet": wallet, "budgets": budgets, **({"rollups": beside} if whole else {})}
    compared = [
        audit_chain_comparison(tenant_id, name, len(faults), faults[0] if faults else "")
        for name, faults in faults_of.items()
    ]
    return compared if (found := await compare_owed(db, tenant_id)) is None else [*compared, found]


async def compare_owed(db: Database, tenant_id: str) -> Comparison | None:
    """R2 of requests' debts beyond the wallet; None: the tenant is postpaid."""
    async with db.snapshot() as session:
        wallet = await session.get(Wallet, tenant_id)
        if wallet is None:
            return None
        unpaid_nano = wallet.posted_nano - await used_of(session, tenant_id)
        owed_nano = await owed_of(session, tenant_id)
    return Comparison(Check.R2, tenant_id, "owed beyond the wallet", "nano", unpaid_nano, owed_nano)


async def _mark(session: AsyncSession, tenant_id: str, chain_name: str, whole: bool) -> ReconMark:
    """Last verified position of the chain; its beginning where it is to be read whole."""
    mark = None if whole else await session.get(ReconMark, (tenant_id, chain_name))
    return mark or ReconMark(tenant_id=tenant_id, chain=chain_name, sums={})


def _mark_at(head: LedgerHead, sums: BookSums, now_ms: int) -> ReconMark:
    return ReconMark(
        tenant_id=head.tenant_id,
        chain=LEDGER,
        seq=head.txn_seq,
        line_seq=head.line_seq,
        sha256=head.sha256,
        sums=msgspec.to_builtins(sums),
        verified_ms=now_ms,
    )


async def _keep(db: Database, mark: ReconMark) -> None:
    async with db.transaction() as session:
        await session.merge(mark)


BOOK_CHECKS = frozenset({Check.R1, Check.R2, Check.R7})
