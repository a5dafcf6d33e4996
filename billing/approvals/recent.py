"""How much money was moved of late by one person alone: moves below the limit count together.

Out of the audit log, which nobody can shorten unseen. What a second person approved is not among it.
"""

from typing import Any

import msgspec
from sqlmodel import col, or_, select

from billing.tables.audit import AuditLog
from core.clock import now_ms
from core.sql.database import Database

BY_TWO = "approved"  # the source of what was booked as a second person approved
LATELY_MS = 24 * 3_600_000
CORRECTIONS = ("request.correct", "request.refund")
MOVES = (*CORRECTIONS, "wallet.grant", "wallet.void", "wallet.claw_back", "wallet.pay_out")


async def recent_amounts(db: Database, tenant_id: str, author: str) -> int:
    """What they moved within 24 hours, of all tenants, and what anybody did of this one, in nano: what people
    are called is no proof of who they are."""
    statement = select(AuditLog.action, AuditLog.after).where(
        col(AuditLog.at_ms) >= now_ms() - LATELY_MS,
        or_(col(AuditLog.author) == author, col(AuditLog.tenant_id) == tenant_id),
        col(AuditLog.action).in_(MOVES),
        col(AuditLog.source) != BY_TWO,
    )
    async with db.session() as session:
        return sum(
            amount_of_audit_row(action, after) for action, after in (await session.exec(statement)).all()
        )


def amount_of_audit_row(action: str, after: str) -> int:
    """What one row of the audit log says was moved. Pure."""
    facts: Any = msgspec.json.decode(after)
    if action in CORRECTIONS:
        return abs(sum(line["amount_nano"] for line in facts.get("lines", ())))
    return abs(facts.get("amount_nano", 0))
