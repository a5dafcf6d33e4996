"""Moments in an installation's life from when on what was loose before is refused."""

from billing.tables.tenants import InstallationMark
from core.configuration.settings import Settings
from core.sql.database import Database

UNSEALED_GRACE_MS = 2 * 3_600_000


async def unsealed_until_ms(db: Database, settings: Settings, mark: str) -> int:
    """Until when what has no seal is of requests from before that upgrade: those have ended by then. 0: where
    none was ever made without."""
    async with db.session() as session:
        found = await session.get(InstallationMark, mark)
    if found is None or not found.at_ms:
        return 0
    return found.at_ms + settings.deadline_bulk_ms + UNSEALED_GRACE_MS
