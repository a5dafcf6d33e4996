"""Proves a tenant's books: the hash chain, that every transaction balances and says what its lines say, that
no line is missing, and that the rollups are the sums of the lines. Reads only."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.books.ledger import REVENUE, TxnKind, chain_hash
from billing.books.ledger_tables import LedgerEntry, LedgerHead, LedgerTxn, RollupHour, UsageLine
from core.database import Database

TXNS_AT_ONCE = 200
FAULTS_MAX = 100
OF_LINES = frozenset(kind.value for kind in (TxnKind.USAGE, TxnKind.ADJUST, TxnKind.TRUE_UP, TxnKind.POOL))


@dataclass
class Verified:
    """What was read of a tenant's books and what is wrong with them, at most FAULTS_MAX findings."""

    tenant_id: str
    txns: int = 0
    lines: int = 0
    amount_nano: int = 0
    sha256: str = ""
    faults: list[str] = field(default_factory=list[str])

    def fault(self, text: str) -> None:
        """Note a finding."""
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


async def verify_books(db: Database, tenant_id: str) -> Verified:
    """Read a tenant's books from their first row to the last."""
    found = Verified(tenant_id)
    async with db.session() as session:
        head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
        await follow_chain(session, head, found, 0, "")
        await _compare_rollups(session, head, found)
    return found


async def follow_chain(
    session: AsyncSession, head: LedgerHead, found: Verified, after: int, sha256: str
) -> None:
    """Read the transactions behind number `after`, which had this hash, up to the head. 0: from the first."""
    last = (await session.get(LedgerTxn, (head.tenant_id, after)) if after else None) or LedgerTxn(
        tenant_id=head.tenant_id,
        seq=0,
        kind="",
        idempotency_key="",
        posted_ms=0,
        first_line_seq=0,
        last_line_seq=0,
        previous_sha256="",
        sha256="",
    )
    if (last.seq, last.sha256) != (after, sha256):
        found.fault(f"transaction {after} is not the one that was read before")
    async for txns, entries, lines in _in_pages(session, head, last.seq):
        for txn in txns:
            own_entries = [entry for entry in entries if entry.txn_seq == txn.seq]
            own_lines = [line for line in lines if txn.first_line_seq <= line.seq <= txn.last_line_seq]
            for fault in faults_of(last, txn, own_entries, own_lines):
                found.fault(f"transaction {txn.seq}: {fault}")
            found.txns += 1
            found.lines += len(own_lines)
            found.amount_nano += sum(line.amount_nano for line in own_lines)
            last = txn
    found.sha256 = last.sha256
    if (head.txn_seq, head.line_seq, head.sha256) != (last.seq, last.last_line_seq, last.sha256):
        found.fault(f"the books end at transaction {last.seq}, their head says {head.txn_seq}")


def faults_of(
    previous: LedgerTxn, txn: LedgerTxn, entries: Sequence[LedgerEntry], lines: Sequence[UsageLine]
) -> list[str]:
    """What is wrong with a transaction, given the one before it, and its entries and lines in order."""
    faults: list[str] = []
    if txn.seq != previous.seq + 1:
        faults.append(f"follows {previous.seq}")
    if txn.previous_sha256 != previous.sha256:
        faults.append("does not continue the hash chain")
    if txn.sha256 != chain_hash(txn, entries, lines):
        faults.append("its hash is not that of its rows: something was changed, added or deleted")
    if sum(entry.amount_nano for entry in entries):
        faults.append("its entries do not sum to zero")
    if txn.first_line_seq != previous.last_line_seq + 1:
        faults.append(f"its lines begin at {txn.first_line_seq}, after {previous.last_line_seq}")
    if [line.seq for line in lines] != list(range(txn.first_line_seq, txn.last_line_seq + 1)):
        faults.append("lines are missing")
    revenue = -sum(entry.amount_nano for entry in entries if entry.account.startswith(REVENUE))
    priced = sum(line.amount_nano for line in lines)
    if txn.kind in OF_LINES and revenue != priced:
        faults.append(f"its lines say {priced} nano, its revenue {revenue}")
    return faults


async def _in_pages(
    session: AsyncSession, head: LedgerHead, after: int
) -> AsyncGenerator[tuple[list[LedgerTxn], list[LedgerEntry], list[UsageLine]]]:
    """The transactions behind number `after` up to the head, some at a time, with their entries and lines.
    What is appended meanwhile is left for the next time."""
    tenant = head.tenant_id
    while True:
        of_txns = select(LedgerTxn).where(col(LedgerTxn.tenant_id) == tenant)
        of_txns = of_txns.where(col(LedgerTxn.seq) > after, col(LedgerTxn.seq) <= head.txn_seq)
        txns = list((await session.exec(of_txns.order_by(col(LedgerTxn.seq)).limit(TXNS_AT_ONCE))).all())
        if not txns:
            return
        of_entries = select(LedgerEntry).where(
            col(LedgerEntry.tenant_id) == tenant,
            col(LedgerEntry.txn_seq).between(txns[0].seq, txns[-1].seq),
        )
        of_lines = select(UsageLine).where(
            col(UsageLine.tenant_id) == tenant,
            col(UsageLine.seq).between(txns[0].first_line_seq, txns[-1].last_line_seq),
        )
        in_order = of_entries.order_by(col(LedgerEntry.txn_seq), col(LedgerEntry.number))
        entries = list((await session.exec(in_order)).all())
        lines = list((await session.exec(of_lines.order_by(col(UsageLine.seq)))).all())
        yield txns, entries, lines
        after = txns[-1].seq
        session.expunge_all()


async def _compare_rollups(session: AsyncSession, head: LedgerHead, found: Verified) -> None:
    """Amount and requests of the rollups against the lines that they are of."""
    of_lines = select(
        func.coalesce(func.sum(UsageLine.amount_nano), 0),
        func.count(col(UsageLine.seq)).filter(col(UsageLine.number) == 0),
    ).where(col(UsageLine.tenant_id) == head.tenant_id, col(UsageLine.seq) <= head.rolled_seq)
    of_rollups = select(
        func.coalesce(func.sum(RollupHour.amount_nano), 0), func.coalesce(func.sum(RollupHour.requests), 0)
    ).where(col(RollupHour.tenant_id) == head.tenant_id)
    lines = tuple(int(value) for value in (await session.exec(of_lines)).one())
    sums = tuple(int(value) for value in (await session.exec(of_rollups)).one())
    if lines != sums:
        found.fault(
            f"the rollups say {sums[0]} nano in {sums[1]} requests, the lines {lines[0]} in {lines[1]}"
        )
