"""Sums recent moves of money by one person alone: moves below the limit count together.

Read from the audit log, which nobody can shorten unseen. Moves that a second person approved do not count.
"""

from typing import Any

import msgspec
from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.audit import AuditLog
from core.clock import now_ms
from core.sql.locks import lock_until_commit

BY_TWO = "approved"  # source of moves that a second person approved
LATELY_MS = 24 * 3_600_000
CORRECTIONS = ("request.correct", "request.refund")
ACCEPTED = "quarantine.accept"  # `amount_nano` of what was billed; a correction has a row of its own
ONE_MOVE = "moves"  # name of the lock: a person's moves of several tenants count together
COMMITTED = {"commitment.create": "owed_nano", "commitment.end": "given_back_nano"}  # paid upfront, or back
WALLET = ("wallet.grant", "wallet.void", "wallet.claw_back", "wallet.pay_out")
MOVES = frozenset((*CORRECTIONS, *COMMITTED, *WALLET, ACCEPTED))


async def lock_recent_amounts(session: AsyncSession, tenant_id: str, author: str) -> int:
    """As `recent_amounts`; nobody else moves money until this transaction ends."""
    await lock_until_commit(session, ONE_MOVE)
    return await recent_amounts(session, tenant_id, author)


async def recent_amounts(session: AsyncSession, tenant_id: str, author: str) -> int:
    """Sum of the last 24 hours, in nano: this author's moves for all tenants, and anybody's for this tenant,
    as an author's name proves no identity."""
    statement = select(AuditLog.action, AuditLog.after).where(
        col(AuditLog.at_ms) >= now_ms() - LATELY_MS,
        or_(col(AuditLog.author) == author, col(AuditLog.tenant_id) == tenant_id),
        col(AuditLog.action).in_(MOVES),
        col(AuditLog.source) != BY_TWO,
    )
    return sum(amount_of_audit_row(action, after) for action, after in (await session.exec(statement)).all())


def amount_of_audit_row(action: str, after: str) -> int:
    """Amount that one row of the audit log moved. Pure."""
    facts: Any = msgspec.json.decode(after)
    if action in CORRECTIONS:
        return abs(sum(line["amount_nano"] for line in facts.get("lines", ())))
    return abs(facts.get(COMMITTED.get(action, "amount_nano"), 0))
