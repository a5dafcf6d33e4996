"""Compares chains with heads that were kept elsewhere: each kept head must still be in its chain. Reads
only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit_heads.heads import Chain, ChainHead, is_signed, read_line
from billing.audit_heads.restore_log import restores_in
from billing.audit_heads.restores import Restores, RolledBackHeads
from billing.tables.audit import AuditLog
from billing.tables.ledger import LedgerTxn
from core.sql.database import Database
from core.terminal.terminal import progress

LINES_AT_ONCE = 500
FAULTS_MAX = 100
PROGRESS_LINES = 50_000
TABLES: Mapping[Chain, tuple[Any, str]] = {
    Chain.BOOKS: (LedgerTxn, "transaction"),
    Chain.CHANGES: (AuditLog, "change"),
}
Hashes = Mapping[tuple[Chain, str, int], str]


@dataclass
class CheckedHeads:
    """Result: number of heads, of lines without one, of heads without a MAC, the newest head's time, faults,
    what restores took back, and recorded restores that excuse nothing."""

    heads: int = 0
    unread: int = 0
    unsigned: int = 0
    latest: str = ""
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    rolled_back: RolledBackHeads = field(default_factory=RolledBackHeads)
    refused: list[str] = field(default_factory=list[str])


async def check_heads(
    db: Database, lines: Iterable[str], installation: str, key: bytes | None, only: str | None = None
) -> CheckedHeads:
    """Compare heads of this installation, or of one owner, with the chains as they are. What a recorded
    restore took back is no fault."""
    found = CheckedHeads()
    restores = await restores_in(db, installation, key)
    found.refused = restores.refused
    source = iter(lines)
    told = PROGRESS_LINES
    async with db.session() as session:
        while page := list(islice(source, LINES_AT_ONCE)):
            heads = [head for line in page if line.strip() and (head := _head(line, found)) is not None]
            mine = [head for head in heads if head.installation == installation]
            mine = [head for head in mine if only in (None, head.tenant)]
            _note(found, mine, key)
            trusted = [head for head in mine if key is None or is_signed(head, key)]
            _add(found, wrong(trusted, await _hashes(session, trusted)), restores)
            if found.heads > told:
                progress(f"{found.heads:,} heads read")
                told += PROGRESS_LINES
    return found


def wrong(heads: Sequence[ChainHead], hashes: Hashes) -> list[tuple[ChainHead, str]]:
    """Heads that differ from the present hashes, each with its fault. Pure."""
    faults: list[tuple[ChainHead, str]] = []
    for head in heads:
        now = hashes.get((head.chain, head.tenant, head.sequence))
        at = f"{TABLES[head.chain][1]} {head.sequence}, kept {head.time}"
        if now is None:
            faults.append((head, f"{at}: it is gone: the chain was cut off, or made anew"))
        elif now != head.sha256:
            faults.append((head, f"{at}: it is not the one that was there then"))
    return faults


def _add(found: CheckedHeads, faults: Sequence[tuple[ChainHead, str]], restores: Restores) -> None:
    for head, fault in faults:
        if (time := restores.covering(head)) is not None:
            found.rolled_back.add(head, time)
        elif len(found.faults) < FAULTS_MAX:
            found.faults.append((head.tenant, fault))


def _head(line: str, found: CheckedHeads) -> ChainHead | None:
    head = read_line(line)
    found.unread += head is None
    return head


def _note(found: CheckedHeads, heads: Sequence[ChainHead], key: bytes | None) -> None:
    for head in heads:
        found.heads += 1
        if key is not None and not is_signed(head, key):
            found.unsigned += 1
            continue
        found.latest = max(found.latest, head.time)


async def _hashes(session: AsyncSession, heads: Sequence[ChainHead]) -> dict[tuple[Chain, str, int], str]:
    hashes: dict[tuple[Chain, str, int], str] = {}
    places: dict[tuple[Chain, str], list[int]] = {}
    for head in heads:
        places.setdefault((head.chain, head.tenant), []).append(head.sequence)
    for (chain, tenant), sequences in places.items():  # one by one, so that SQLite too uses the primary key
        table, _ = TABLES[chain]
        statement = select(table.seq, table.sha256).where(col(table.tenant_id) == tenant)
        for seq, sha256 in (await session.exec(statement.where(col(table.seq).in_(sequences)))).all():
            hashes[chain, tenant, seq] = sha256
    return hashes
