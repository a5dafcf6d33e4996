"""Rebuilds rollups that differ from a tenant's books, where the books themselves are whole."""

from billing.audit.log import record
from billing.booking.rollups import rebuild
from billing.ledger.derived import forged_events, rollup_faults, rows_beyond_head
from billing.reconciliation.ledger import compare_ledger
from core.clock import now_ms
from core.errors import bad_request
from core.sql.database import Database

NAMED_MAX = 100


async def rebuild_wrong_rollups(db: Database, tenant_id: str) -> int:
    """Rebuild a tenant's rollups where any is not the sum of its lines; return the number of wrong ones, at
    most NAMED_MAX.

    Raises Refused where books or requests are not as they were booked: rollups would repeat the fault."""
    wrong = await rollup_faults(db, tenant_id, NAMED_MAX)
    if not wrong:
        return 0
    compared, _ = await compare_ledger(db, tenant_id, now_ms(), whole=True)
    beside = [*await rows_beyond_head(db, tenant_id, 1), *await forged_events(db, tenant_id, 1)]
    if beside or any(each.difference for each in compared):
        raise bad_request("the books themselves are wrong: see `parley audit verify`")
    lines = await rebuild(db, tenant_id)
    async with db.transaction() as session:
        facts = {"rollups_wrong": len(wrong), "first": wrong[0], "lines": lines}
        await record(session, tenant_id, "reconciliation.rebuild", tenant_id, None, facts)
    return len(wrong)
