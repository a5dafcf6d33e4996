"""How many usage events wait for a decision."""

from sqlmodel import col, func, select

from billing.tables.tenants import UsageQuarantine
from core.sql.database import Database

COUNTED_MAX = 10_000


async def count_quarantined(db: Database) -> int:
    """Events that were held back, and that nobody has decided on; no more than COUNTED_MAX are counted. For
    operators."""
    open_ones = select(UsageQuarantine.event_sha256).where(col(UsageQuarantine.resolved_ms).is_(None))
    held = select(func.count()).select_from(open_ones.limit(COUNTED_MAX).subquery())
    async with db.session() as session:
        return (await session.exec(held)).one()
