"""Makes a tenant's rollups again from its lines, a part at a time, beside a biller that goes on posting.

`ledger_head.rolled_seq` is the watermark: lines up to it are in the rollups. Posting adds its lines to the
rollups only where the watermark is at the end; else they are added here, each exactly once.
"""

from collections.abc import Callable

from sqlalchemy import delete
from sqlmodel import col, select

from billing.booking.write import add_rollups, advance_head, lock_heads
from billing.tables.ledger import RollupHour, RollupPrice, RollupTag, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow
from core.sql.database import Database

LINES_AT_ONCE = 5_000

Progress = Callable[[int, int], None]


async def rebuild(db: Database, tenant_id: str, told: Progress | None = None) -> int:
    """Delete a tenant's rollups and make them again; return the number of lines added. `told` is called with
    (done, all). `advance` continues an interrupted rebuild."""
    async with db.transaction() as session:
        heads = await lock_heads(session, [tenant_id])
        head = heads[tenant_id]
        connection = await session.connection()
        await connection.execute(delete(RollupHour).where(col(RollupHour.tenant_id) == tenant_id))
        await connection.execute(delete(RollupPrice).where(col(RollupPrice.tenant_id) == tenant_id))
        await connection.execute(delete(RollupTag).where(col(RollupTag.tenant_id) == tenant_id))
        head.rolled_seq = 0
        await advance_head(session, head)
    return await advance(db, tenant_id, told)


async def advance(db: Database, tenant_id: str, told: Progress | None = None) -> int:
    """Add the lines above the watermark, LINES_AT_ONCE in a transaction; return their number."""
    added = 0
    while True:
        number, last = await _advance_once(db, tenant_id)
        added += number
        if told:
            told(added, added + last)
        if last == 0:
            return added


async def _advance_once(db: Database, tenant_id: str) -> tuple[int, int]:
    """Add one transaction's lines. Returns (lines added, lines left)."""
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        until = min(head.line_seq, head.rolled_seq + LINES_AT_ONCE)
        own = (
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.seq) > head.rolled_seq,
            col(UsageLine.seq) <= until,
        )
        lines = (await session.exec(select(UsageLine).where(*own).order_by(col(UsageLine.seq)))).all()
        of_lines = select(UsageLine.request_id).where(*own)
        of_requests = select(UsageRow).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id).in_(of_lines)
        )
        of_charges = select(Charge).where(col(Charge.tenant_id) == tenant_id, col(Charge.id).in_(of_lines))
        requests = [*(await session.exec(of_requests)).all(), *(await session.exec(of_charges)).all()]
        await add_rollups(session, [(requests, lines)])
        head.rolled_seq = until
        await advance_head(session, head)
        return len(lines), head.line_seq - until
