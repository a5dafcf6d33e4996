"""Limits how often a tenant's sums are rebuilt automatically, so that repeated deletion shows as a
difference.

The count is by tenant and server. The first loss is repaired at once; after each further one on the same
server the pause doubles, and the difference stays visible.
"""

from collections.abc import Mapping

from sqlmodel import col, select

from billing.tables.reconciliation import ReconMark
from core.sql.database import Database, upsert

REBUILT = "healed"  # chain of the ReconMark that holds the count (`seq`), time and server of rebuilds
FIRST_MS = 120_000
LONGEST_MS = 24 * 3_600_000
FORGOTTEN_MS = 2 * LONGEST_MS


def rebuild_count(mark: ReconMark | None, server: str, now: int) -> int:
    """Number of recent rebuilds on this server, 0 after FORGOTTEN_MS. Pure."""
    if mark is None or mark.sha256 != server or now - mark.verified_ms > FORGOTTEN_MS:
        return 0
    return mark.seq


def paused_until_ms(mark: ReconMark | None, server: str, now: int) -> int:
    """Time from which the sums may be rebuilt again; 0: now. Pure."""
    times = rebuild_count(mark, server, now)
    if mark is None or not times:
        return 0
    until = mark.verified_ms + min(LONGEST_MS, FIRST_MS << min(times - 1, 20))
    return until if until > now else 0


async def rebuild_marks(db: Database) -> Mapping[str, ReconMark]:
    """The record of each tenant's rebuilds."""
    async with db.session() as session:
        marks = await session.exec(select(ReconMark).where(col(ReconMark.chain) == REBUILT))
        return {mark.tenant_id: mark for mark in marks}


async def store_rebuild(db: Database, tenant_id: str, server: str, times: int, now: int) -> None:
    """Record a tenant's `times`th rebuild."""
    row = {"tenant_id": tenant_id, "chain": REBUILT, "seq": times, "line_seq": 0, "sha256": server}
    async with db.transaction() as session:
        await upsert(session, [{**row, "sums": {}, "verified_ms": now}], ReconMark)
