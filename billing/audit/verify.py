"""Verifies an audit chain: no row of it was changed, removed, inserted, moved or cut off. Reads only.

The database alone cannot show that a chain was made again from some row on, head and all, or deleted as a
whole. Heads that were kept elsewhere (billing/audit_heads) show that too.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import row_hash
from billing.tables.audit import AuditHead, AuditLog
from billing.tables.ledger import LedgerHead
from billing.tables.tenants import PLATFORM, Tenant
from core.sql.database import Database

ROWS_AT_ONCE = 500
FAULTS_MAX = 100
PLATFORM_NAME = "(platform)"
MISSING = "it is not the one that was read before"


@dataclass
class VerifiedLog:
    """Result of reading a chain, with at most FAULTS_MAX faults. `rolled_back`: kept heads of its owner that
    restores took back."""

    tenant_id: str
    rows: int = 0
    sha256: str = ""
    faults: list[str] = field(default_factory=list[str])
    rolled_back: list[str] = field(default_factory=list[str])


async def verify_log(db: Database, tenant_id: str, after: int = 0, sha256: str = "") -> VerifiedLog:
    """Read a chain after row `after`, whose hash must be `sha256`, to its end. 0 starts at its first row."""
    found = VerifiedLog(tenant_id, sha256=sha256)
    async with db.session() as session:
        head = await session.get(AuditHead, tenant_id) or AuditHead(tenant_id=tenant_id)
        last = await session.get(AuditLog, (tenant_id, after)) if after else None
        if after and (last is None or last.sha256 != sha256):
            found.faults.append(f"change {after}: {MISSING}")
        follower = ChainFollower(after, sha256)
        async for rows in _in_pages(session, head, after):
            for row in rows:
                found.faults += [f"change {row.seq}: {fault}" for fault in follower.faults_of(row)]
                found.rows += 1
        found.sha256 = follower.sha256
        found.faults += follower.end_faults(head)
        found.faults += await _beyond(session, head)
    del found.faults[FAULTS_MAX:]
    return found


@dataclass
class ChainFollower:
    """Position in a chain. Pure."""

    seq: int = 0
    sha256: str = ""

    def faults_of(self, row: AuditLog) -> list[str]:
        """Faults of the next row."""
        faults: list[str] = []
        if row.seq != self.seq + 1:
            faults.append(f"follows {self.seq}: rows are missing")
        if row.previous_sha256 != self.sha256:
            faults.append("does not continue the hash chain")
        if row.sha256 != row_hash(row):
            faults.append("its hash is not that of the row: something in it was changed")
        self.seq, self.sha256 = row.seq, row.sha256
        return faults

    def end_faults(self, head: AuditHead) -> list[str]:
        """Faults of the end."""
        if (head.seq, head.sha256) == (self.seq, self.sha256):
            return []
        return [f"the changes end at {self.seq}, their head says {head.seq}: the end was cut off or added to"]


async def _in_pages(session: AsyncSession, head: AuditHead, after: int) -> AsyncGenerator[list[AuditLog]]:
    """Yield the rows after `after` up to the head. Rows added meanwhile are left for the next run."""
    while True:
        statement = select(AuditLog).where(
            col(AuditLog.tenant_id) == head.tenant_id,
            col(AuditLog.seq) > after,
            col(AuditLog.seq) <= head.seq,
        )
        rows = list((await session.exec(statement.order_by(col(AuditLog.seq)).limit(ROWS_AT_ONCE))).all())
        if not rows:
            return
        yield rows
        after = rows[-1].seq
        session.expunge_all()


async def _beyond(session: AsyncSession, head: AuditHead) -> list[str]:
    """Find rows after the head, which no writer leaves. Checked against the head as it is now."""
    now = select(AuditHead.seq).where(col(AuditHead.tenant_id) == head.tenant_id).scalar_subquery()
    statement = (
        select(AuditLog.seq)
        .where(col(AuditLog.tenant_id) == head.tenant_id, col(AuditLog.seq) > head.seq)
        .where((now.is_(None)) | (col(AuditLog.seq) > now))
        .limit(1)
    )
    found = (await session.exec(statement)).first()
    return [] if found is None else [f"change {found}: no writer put it behind the end of the chain"]


async def owners(db: Database) -> Mapping[str, str]:
    """Names by id of the platform and of everyone with books or a chain, deleted tenants included."""
    async with db.session() as session:
        names = dict((await session.exec(select(Tenant.tenant_id, Tenant.name))).all())
        found = {PLATFORM, *names}
        for table in (LedgerHead, AuditHead, AuditLog):
            found |= set((await session.exec(select(table.tenant_id).distinct())).all())
    names[PLATFORM] = PLATFORM_NAME
    return {id: names.get(id, "(deleted)") for id in sorted(found)}
