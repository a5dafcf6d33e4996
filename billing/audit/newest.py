"""The newest changes of all chains, for pages that ask every few seconds."""

from collections.abc import Collection, Sequence

from sqlalchemy import and_, or_
from sqlmodel import col, select

from billing.tables.audit import AuditHead, AuditLog
from core.sql.database import Database

BEHIND_HEAD_MAX = 50  # rows of a chain that are looked at


async def newest_changes(db: Database, count: int, without: Collection[str]) -> Sequence[AuditLog]:
    """The newest rows of all chains but those of these actions, newest first. For operators.

    Read by the chains' heads, so that it takes as long as there are chains, however many rows: of each of the
    `count` chains that changed last, its last BEHIND_HEAD_MAX rows."""
    is_head = and_(
        col(AuditLog.tenant_id) == col(AuditHead.tenant_id), col(AuditLog.seq) == col(AuditHead.seq)
    )
    newest = (col(AuditLog.at_ms).desc(), col(AuditLog.tenant_id), col(AuditLog.seq).desc())
    heads = select(AuditLog.tenant_id, AuditLog.seq).join(AuditHead, is_head).order_by(*newest).limit(count)
    async with db.session() as session:
        ends = (await session.exec(heads)).all()
        if not ends:
            return []
        theirs = [
            and_(col(AuditLog.tenant_id) == tenant, col(AuditLog.seq) > seq - BEHIND_HEAD_MAX)
            for tenant, seq in ends
        ]
        rows = select(AuditLog).where(or_(*theirs), col(AuditLog.action).not_in(sorted(without)))
        return (await session.exec(rows.order_by(*newest).limit(count))).all()
