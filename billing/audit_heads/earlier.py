"""Compares chains with what `parley audit verify --json` printed earlier. Reads only."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

import msgspec
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.verify import MISSING
from billing.audit_heads.heads import Chain, ChainHead
from billing.audit_heads.restore_log import restores_in
from billing.audit_heads.restores import RolledBackHeads
from billing.tables.audit import AuditLog
from billing.tables.ledger import LedgerTxn
from billing.tables.tenants import PLATFORM
from core.sql.database import Database


class VerifiedHeads(msgspec.Struct, frozen=True):
    """Ends of a tenant's two chains when they were read, and the hashes there: a line of `parley audit verify
    --json`. `time` empty: an older release printed it, so that no restore is known to be later."""

    tenant: str
    transactions: int = 0
    sha256: str = ""
    changes: int = 0
    changes_sha256: str = ""
    time: str = ""


@dataclass
class CheckedReadings:
    """Faults, and what restores took back, by owner."""

    faults: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    rolled_back: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


async def verify_against_earlier(
    db: Database, kept: Iterable[VerifiedHeads], installation: str = "", key: bytes | None = None
) -> CheckedReadings:
    """Find the ends of earlier readings in the chains as they are, but for those that a recorded restore of
    this installation took back."""
    found, rolled_back = CheckedReadings(), RolledBackHeads()
    restores = await restores_in(db, installation, key)
    async with db.session() as session:
        for each in kept:
            own = found.faults.setdefault(each.tenant, [])
            for head in _heads(each, installation):
                if await _is_there(session, head):
                    continue
                time = restores.covering(head) if head.time else None
                if time is not None:
                    rolled_back.add(head, time)
                else:
                    word = "transaction" if head.chain is Chain.BOOKS else "change"
                    own.append(f"{word} {head.sequence}: {MISSING}")
    if any(found.faults.values()) and restores.refused:
        found.faults.setdefault(PLATFORM, []).extend(restores.refused)
    for owner, words in rolled_back.shown():
        found.rolled_back.setdefault(owner, []).append(words)
    return found


def _heads(reading: VerifiedHeads, installation: str) -> Generator[ChainHead]:
    ends = (
        (Chain.BOOKS, reading.transactions, reading.sha256),
        (Chain.CHANGES, reading.changes, reading.changes_sha256),
    )
    for chain, sequence, sha256 in ends:
        if sequence:
            yield ChainHead(reading.time, installation, chain, reading.tenant, sequence, sha256)


async def _is_there(session: AsyncSession, head: ChainHead) -> bool:
    table = LedgerTxn if head.chain is Chain.BOOKS else AuditLog
    row = await session.get(table, (head.tenant, head.sequence))
    return row is not None and row.sha256 == head.sha256
