"""Records a restore in the platform's chain, and reads the recorded ones."""

from collections.abc import Sequence

import msgspec
from sqlmodel import col, select

from billing.audit.log import record
from billing.audit_heads.restores import RESTORED, RestoreRecord, Restores, Rollback, records_of
from billing.audit_heads.stores import key_of
from billing.tables.audit import AuditLog
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database

ROWS_AT_ONCE = 100


async def record_restore(
    db: Database, settings: Settings, made_ms: int, backup_sha256: str, rollbacks: Sequence[Rollback]
) -> list[RestoreRecord]:
    """Record that a backup was restored, and how far that took chains back (`rollbacks_of`); signed where
    there is a key. One row, or several in one transaction where the rollbacks are too many for one."""
    records = records_of(settings.installation, now_ms(), made_ms, backup_sha256, rollbacks, key_of(settings))
    async with db.transaction() as session:
        for each in records:
            facts = msgspec.to_builtins(each)
            await record(session, PLATFORM, RESTORED, settings.installation, None, facts)
    return records


async def is_restored(db: Database, backup_sha256: str) -> bool:
    """True where a restore of this backup is recorded."""
    found = select(AuditLog.seq).where(
        col(AuditLog.tenant_id) == PLATFORM,
        col(AuditLog.action) == RESTORED,
        col(AuditLog.after).contains(backup_sha256),
    )
    async with db.session() as session:
        return (await session.exec(found.limit(1))).first() is not None


async def restores_in(db: Database, installation: str, key: bytes | None) -> Restores:
    """Read the recorded restores of an installation; with a key, only signed ones excuse a head."""
    found, after = Restores(installation, key), 0
    statement = select(AuditLog.seq, AuditLog.at_ms, AuditLog.after).where(
        col(AuditLog.tenant_id) == PLATFORM, col(AuditLog.action) == RESTORED
    )
    async with db.session() as session:
        while True:
            page = statement.where(col(AuditLog.seq) > after).order_by(col(AuditLog.seq))
            rows = (await session.exec(page.limit(ROWS_AT_ONCE))).all()
            for number, at_ms, facts in rows:
                found.add(number, at_ms, facts)
            if len(rows) < ROWS_AT_ONCE:
                return found
            after = rows[-1][0]
