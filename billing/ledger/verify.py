"""Verifies a tenant's books: the hash chain, balanced transactions that match their lines, no missing line,
and requests, charges and derived tables as they were booked. Reads only."""

from bisect import bisect_left
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.derived import forged_events, rollup_faults, rows_beyond_head
from billing.ledger.sources import Sources, source_faults, sources_of
from billing.ledger.transactions import REVENUE, TxnKind, chain_hash
from billing.tables.ledger import HASH_VERSION, LedgerEntry, LedgerHead, LedgerTxn, UsageLine
from core.observability.error_facts import error_summary
from core.runtime.failed_rounds import is_store_down
from core.sql.database import Database

TXNS_AT_ONCE = 200
FAULTS_MAX = 100
OF_LINES = frozenset(kind.value for kind in (TxnKind.USAGE, TxnKind.ADJUST, TxnKind.TRUE_UP, TxnKind.POOL))


@dataclass
class Verified:
    """Result of reading a tenant's books: counts, the last hash, and at most FAULTS_MAX faults."""

    tenant_id: str
    txns: int = 0
    lines: int = 0
    amount_nano: int = 0
    sha256: str = ""
    faults: list[str] = field(default_factory=list[str])

    def fault(self, text: str) -> None:
        """Add a fault."""
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


async def verify_ledger(db: Database, tenant_id: str) -> Verified:
    """Read a tenant's whole books and what is derived from them."""
    found = Verified(tenant_id)
    with record_failure(found.faults):
        async with db.session() as session:
            head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
            await follow_chain(session, head, found, 0, "")
    with record_failure(found.faults):
        for fault in await derived_faults(db, tenant_id):
            found.fault(fault)
    return found


@contextmanager
def record_failure(faults: list[str]) -> Generator[None]:
    """Record a failure of this part as a fault: stored rows that cannot be read end only this part. Raises
    what shows that the database is down."""
    try:
        yield
    except Exception as error:
        if is_store_down(error):
            raise
        faults.append(
            f"what stands there cannot be read, and what is behind it is not proved: {error_summary(error)}"
        )


async def derived_faults(db: Database, tenant_id: str) -> list[str]:
    """Find faults beside the chain: rows that nobody booked, and rollups that are not the sums of their
    lines."""
    return [
        *await rows_beyond_head(db, tenant_id, FAULTS_MAX),
        *await forged_events(db, tenant_id, FAULTS_MAX),
        *await rollup_faults(db, tenant_id, FAULTS_MAX),
    ]


async def follow_chain(
    session: AsyncSession, head: LedgerHead, found: Verified, after: int, sha256: str
) -> None:
    """Read the transactions after number `after`, whose hash must be `sha256`, up to the head. 0 starts at
    the first."""
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
    async for txns, entries, lines, sources in _in_pages(session, head, last.seq):
        for txn in txns:
            own_entries = [entry for entry in entries if entry.txn_seq == txn.seq]
            own_lines = lines[_place(lines, txn.first_line_seq) : _place(lines, txn.last_line_seq + 1)]
            faults = faults_of(last, txn, own_entries, own_lines)
            faults += source_faults(own_lines, sources)
            for fault in faults:
                found.fault(f"transaction {txn.seq}: {fault}")
            found.txns += 1
            found.lines += len(own_lines)
            found.amount_nano += sum(line.amount_nano for line in own_lines)
            last = txn
    found.sha256 = last.sha256
    if (head.txn_seq, head.line_seq, head.sha256) != (last.seq, last.last_line_seq, last.sha256):
        ends = f"transaction {last.seq} and line {last.last_line_seq}"
        found.fault(f"the books end at {ends}, their head says {head.txn_seq} and {head.line_seq}")


def _place(lines: Sequence[UsageLine], seq: int) -> int:
    """Index of the line of this number, or its place, among lines in order."""
    return bisect_left(lines, seq, key=attrgetter("seq"))


def faults_of(
    previous: LedgerTxn, txn: LedgerTxn, entries: Sequence[LedgerEntry], lines: Sequence[UsageLine]
) -> list[str]:
    """Faults of a transaction, given the one before it, and its entries and lines in order."""
    faults: list[str] = []
    if txn.seq != previous.seq + 1:
        faults.append(f"follows {previous.seq}")
    if txn.previous_sha256 != previous.sha256:
        faults.append("does not continue the hash chain")
    if txn.sha256 != chain_hash(txn, entries, lines):
        faults.append("its hash is not that of its rows: something was changed, added or deleted")
    if txn.hash_version != HASH_VERSION:
        faults.append(f"its hash is of version {txn.hash_version}, which this release does not make")
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


Page = tuple[list[LedgerTxn], list[LedgerEntry], list[UsageLine], Sources]


async def _in_pages(session: AsyncSession, head: LedgerHead, after: int) -> AsyncGenerator[Page]:
    """Yield the transactions after number `after` up to the head in pages, with their entries, lines and
    sources. Rows appended meanwhile are left for the next run."""
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
        sources = await sources_of(session, tenant, txns[0].first_line_seq, txns[-1].last_line_seq)
        yield txns, entries, lines, sources
        after = txns[-1].seq
        session.expunge_all()
