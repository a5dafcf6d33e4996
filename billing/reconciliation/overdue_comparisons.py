"""Alarms where R4 waits too long: somebody who keeps writing events would hide a difference."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete
from sqlmodel import col, select

from billing import instruments
from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.tables.reconciliation import ReconMark
from core.observability.telemetry import logger
from core.sql.database import Database, upsert

log = logger(__name__)

WAITING = "waiting"  # chain of the ReconMark that holds since when (`verified_ms`) a tenant's R4 waits
WAITS_MAX_MS = 3_600_000


async def alarm_waiting(db: Database, compared: Sequence[Comparison], now: int) -> list[str]:
    """Log and count the tenants whose R4 was found waiting in every run for longer than WAITS_MAX_MS; return
    them."""
    waiting = {
        each.tenant_id for each in compared if (each.check, each.state) == (Check.R4, ComparisonState.WAITING)
    }
    async with db.transaction() as session:
        marks = await session.exec(select(ReconMark).where(col(ReconMark.chain) == WAITING))
        since = {mark.tenant_id: mark.verified_ms for mark in marks}
        over = sorted(since.keys() - waiting)
        if over:
            mine = (col(ReconMark.chain) == WAITING, col(ReconMark.tenant_id).in_(over))
            await (await session.connection()).execute(delete(ReconMark).where(*mine))
        row: dict[str, Any] = {"chain": WAITING, "seq": 0, "line_seq": 0, "sha256": "", "sums": {}}
        row["verified_ms"] = now
        if new := sorted(waiting - since.keys()):
            await upsert(session, [{"tenant_id": who, **row} for who in new], ReconMark)
    late = sorted(who for who in waiting if now - since.get(who, now) > WAITS_MAX_MS)
    for who in late:
        instruments.comparisons_overdue.add(1)
        log.error("reconciliation.comparison_overdue", tenant=who, waiting_ms=now - since[who])
    return late
