"""How often a tenant's sums are counted anew by themselves: who deletes them each minute is seen, not served.

By tenant and by the server that has the sums. The first loss is healed at once; after each further one on the
same server it pauses twice as long, and the difference stays for people to see.
"""

from collections.abc import Mapping

from sqlmodel import col, select

from billing.tables.reconciliation import ReconMark
from core.sql.database import Database, upsert

HEALED = "healed"  # the chain under which ReconMark keeps how often (`seq`) and when last, on which server
FIRST_MS = 120_000
LONGEST_MS = 24 * 3_600_000
FORGOTTEN_MS = 2 * LONGEST_MS


def rebuild_count(mark: ReconMark | None, server: str, now: int) -> int:
    """How often sums on this server were healed, as far as that counts still. Pure."""
    if mark is None or mark.sha256 != server or now - mark.verified_ms > FORGOTTEN_MS:
        return 0
    return mark.seq


def paused_until_ms(mark: ReconMark | None, server: str, now: int) -> int:
    """From when on they may be healed again; 0: now. Pure."""
    times = rebuild_count(mark, server, now)
    if mark is None or not times:
        return 0
    until = mark.verified_ms + min(LONGEST_MS, FIRST_MS << min(times - 1, 20))
    return until if until > now else 0


async def rebuild_marks(db: Database) -> Mapping[str, ReconMark]:
    """By tenant."""
    async with db.session() as session:
        marks = await session.exec(select(ReconMark).where(col(ReconMark.chain) == HEALED))
        return {mark.tenant_id: mark for mark in marks}


async def store_rebuild(db: Database, tenant_id: str, server: str, times: int, now: int) -> None:
    """It was healed for the `times`th time."""
    row = {"tenant_id": tenant_id, "chain": HEALED, "seq": times, "line_seq": 0, "sha256": server}
    async with db.transaction() as session:
        await upsert(session, [{**row, "sums": {}, "verified_ms": now}], ReconMark)
