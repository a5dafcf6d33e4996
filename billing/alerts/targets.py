"""Addresses of a tenant's alerts, the thresholds reached, and the state of their messages."""

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from sqlmodel import col, func, select

from billing.alerts.addresses import checked_address, checked_url
from billing.audit.log import record
from billing.budgets.thresholds import EMAIL, WEBHOOK, message
from billing.tables.wallets import AlertTarget, BudgetAlert, Outbox
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import bad_request
from core.ids import uuid7
from core.sql.database import Database

TARGETS_MAX = 10
LISTED_MAX = 1_000
TEST = "test:"  # what causes of tests begin with


async def add_target(
    db: Database, tenant_id: str, kind: str, address: str, *, private: bool = False, author: str = ""
) -> AlertTarget:
    """Add a target for a tenant, or with PLATFORM for the operators; a webhook's secret is in the result.
    `private`: an address that is not public is allowed.

    Raises Refused where the address is invalid, or there are TARGETS_MAX already."""
    checked = checked_address(address, EMAIL) if kind == EMAIL else checked_url(address, private)
    now = now_ms()
    row = AlertTarget(
        tenant_id=tenant_id,
        id=uuid7(now),
        kind=kind,
        address=checked,
        secret=f"whsec_{secrets.token_hex(32)}" if kind == WEBHOOK else "",
        author=author,
        created_ms=now,
    )
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        number = select(func.count()).where(
            col(AlertTarget.tenant_id) == tenant_id, col(AlertTarget.ended_ms).is_(None)
        )
        if (await session.exec(number)).one() >= TARGETS_MAX:
            raise bad_request(f"there are {TARGETS_MAX} targets already: remove one first")
        session.add(row)
        await record(session, tenant_id, "alert_target.add", row.id, None, _shown(row))
    return row


async def remove_target(db: Database, tenant_id: str, target_id: str) -> AlertTarget | None:
    """End a target; unsent messages to it are dropped. None: there is no such target."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        row = await session.get(AlertTarget, (tenant_id, target_id))
        if row is None or row.ended_ms is not None:
            return None
        before = _shown(row)
        row.ended_ms = now_ms()
        await record(session, tenant_id, "alert_target.remove", row.id, before, _shown(row))
    return row


async def remove_mail_targets(db: Database, tenant_id: str, address: str) -> int:
    """End a tenant's targets of a mail address, as where whose it is was removed; return how many there
    were."""
    of = [each for each in await list_targets(db, tenant_id) if each.kind == EMAIL]
    theirs = [each for each in of if each.address.casefold() == address.casefold()]
    for each in theirs:
        await remove_target(db, tenant_id, each.id)
    return len(theirs)


async def list_targets(db: Database, tenant_id: str) -> Sequence[AlertTarget]:
    """A tenant's open targets, oldest first."""
    statement = select(AlertTarget).where(
        col(AlertTarget.tenant_id) == tenant_id, col(AlertTarget.ended_ms).is_(None)
    )
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(AlertTarget.id)))).all()


async def list_alerts(db: Database, tenant_id: str) -> Sequence[BudgetAlert]:
    """Thresholds reached, newest first, at most LISTED_MAX."""
    statement = select(BudgetAlert).where(col(BudgetAlert.tenant_id) == tenant_id)
    newest = statement.order_by(col(BudgetAlert.created_ms).desc(), col(BudgetAlert.threshold).desc())
    async with db.session() as session:
        return (await session.exec(newest.limit(LISTED_MAX))).all()


async def list_messages(db: Database, tenant_id: str) -> Sequence[Outbox]:
    """Messages of alerts, newest first, at most LISTED_MAX."""
    statement = select(Outbox).where(col(Outbox.tenant_id) == tenant_id)
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(Outbox.id).desc()).limit(LISTED_MAX))).all()


async def last_messages(db: Database, tenant_id: str, target_ids: Sequence[str]) -> dict[str, Outbox]:
    """The newest message to each of these targets that has any."""
    own = (col(Outbox.tenant_id) == tenant_id, col(Outbox.target_id).in_(target_ids))
    newest = select(func.max(col(Outbox.id))).where(*own).group_by(col(Outbox.target_id))
    statement = select(Outbox).where(col(Outbox.tenant_id) == tenant_id, col(Outbox.id).in_(newest))
    async with db.session() as session:
        return {row.target_id: row for row in (await session.exec(statement)).all()}


async def tests_since(db: Database, tenant_id: str, since_ms: int) -> list[int]:
    """When a tenant's tests were made since then, in Unix ms, whatever became of their targets."""
    statement = select(col(Outbox.created_ms)).where(
        col(Outbox.tenant_id) == tenant_id,
        col(Outbox.created_ms) >= since_ms,
        col(Outbox.idempotency_key).startswith(TEST),
    )
    async with db.session() as session:
        return [*(await session.exec(statement)).all()]


async def retry(db: Database, tenant_id: str, message_id: str | None = None) -> int:
    """Send a given-up or waiting message now, under the same id; None: all given-up ones. Returns their
    number."""
    statement = select(Outbox).where(col(Outbox.tenant_id) == tenant_id, col(Outbox.state) != "sent")
    if message_id is None:
        statement = statement.where(col(Outbox.state) == "failed")
    else:
        statement = statement.where(col(Outbox.id) == message_id)
    facts: dict[str, Any] = {"state": "waiting", "attempts": 0, "first_sent_ms": None, "ended_ms": None}
    async with db.transaction() as session:
        idle = statement.where(col(Outbox.claimed_until_ms) <= now_ms())  # other ones are being sent
        rows = (await session.exec(idle.with_for_update())).all()
        for row in rows:
            for name, value in facts.items():
                setattr(row, name, value)
            row.next_attempt_ms = now_ms()
    return len(rows)


async def send_test(db: Database, tenant_id: str, target_id: str) -> Outbox:
    """Put a test message into the outbox. Raises Refused for an unknown target."""
    now = now_ms()
    async with db.transaction() as session:
        target = await session.get(AlertTarget, (tenant_id, target_id))
        if target is None or target.ended_ms is not None:
            raise bad_request(f"there is no target {target_id!r}: see `parley alerts targets list`")
        row = message(target, f"{TEST}{uuid7(now)}", {"type": "test"}, now)
        session.add(row)
    return row


def _shown(row: AlertTarget) -> dict[str, Any]:
    """A target's facts for the audit log: only the host of a URL, as its path may be a secret."""
    address = urlsplit(row.address).netloc if row.kind == WEBHOOK else row.address
    return {"kind": row.kind, "address": address, "author": row.author, "ended_ms": row.ended_ms}
