"""Sends the outbox's messages at least once: each is claimed, sent, and marked.

Any number of senders may run. A sender owns a row until its claim ends: if it dies between sending and
marking, another sends the message again under the same id.
"""

import asyncio
import json
import os
import random
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, delete, func, update
from sqlalchemy.exc import DBAPIError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.alerts import report_mail
from billing.alerts.mail import send_mail
from billing.alerts.messages import mail_text
from billing.alerts.user_names import with_names
from billing.alerts.webhooks import NotDelivered, Webhook, send_webhook, webhook_client
from billing.budgets.thresholds import EMAIL
from billing.periods import Period
from billing.tables.wallets import AlertTarget, BudgetAlert, BudgetSpent, Outbox
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database

if TYPE_CHECKING:
    import httpx

log = logger(__name__)

WAITING, SENT, FAILED = "waiting", "sent", "failed"
AT_ONCE = 8
CLAIM_MS = 180_000  # longer than any message takes
POLL_SECONDS = 1.0
FIRST_RETRY_MS = 10_000
RETRY_MS_MAX = 6 * 3_600_000
GIVE_UP_MS = 3 * 86_400_000
MAIL_WAIT_MS = 60_000
NO_MAIL_SERVER = "waiting for a mail server (PARLEY_SMTP_HOST)"
TARGET_GONE = "the target was removed"
KEEP_MS = 90 * 86_400_000
SUMS_KEEP_MS = 400 * 86_400_000
FORGET_MS = 3_600_000


def next_attempt_ms(attempts: int, first_sent_ms: int, at_ms: int, chance: float) -> int | None:
    """Time of the next attempt after `attempts` failures: the wait doubles each time, jittered by `chance` (0
    to 1); None: give up. Pure."""
    longest = min(RETRY_MS_MAX, FIRST_RETRY_MS << min(attempts - 1, 20))
    again = at_ms + longest // 2 + int(longest / 2 * chance)
    return again if again <= first_sent_ms + GIVE_UP_MS else None


class OutboxSender:
    """The sender of one process."""

    def __init__(self, db: Database, settings: Settings, claim_ms: int = CLAIM_MS) -> None:
        self._db = db
        self._settings = settings
        self._claim_ms = claim_ms
        self._name = f"{settings.node}-{os.getpid()}-{secrets.token_hex(4)}"
        self._forgot_ms = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Send due messages until `stop` is set; finishes those under way."""
        while not stop.is_set():
            sent = 0
            with logged_failures(log, "outbox.run_failed"):
                sent = await self.send_due()
                if sent < AT_ONCE:
                    await self._forget()
            if sent < AT_ONCE:
                await _wait(stop, POLL_SECONDS)

    async def send_due(self) -> int:
        """Send due messages, at most AT_ONCE; return their number."""
        rows = await self._claim(now_ms())
        if rows:
            async with webhook_client() as client:
                await asyncio.gather(*(self._handle(client, row) for row in rows))
        return len(rows)

    async def _claim(self, at_ms: int) -> Sequence[Outbox]:
        """Claim due rows for this sender. Takes SQLite's lock only where there are some."""
        due = (
            col(Outbox.state) == WAITING,
            col(Outbox.next_attempt_ms) <= at_ms,
            col(Outbox.claimed_until_ms) <= at_ms,
        )
        async with self._db.session() as session:
            if (await session.exec(select(Outbox.id).where(*due).limit(1))).first() is None:
                return []
        async with self._db.transaction() as session:
            rows = (await session.exec(_in_turn(due).limit(AT_ONCE))).all()
            for row in rows:
                row.claimed_by, row.claimed_until_ms = self._name, at_ms + self._claim_ms
                if row.first_sent_ms is None:
                    row.first_sent_ms = at_ms
        return rows

    async def _handle(self, client: "httpx.AsyncClient", row: Outbox) -> None:
        async with self._db.session() as session:
            target = await _target_of(session, row)
        try:
            if target is None or target.ended_ms is not None:
                gone = report_mail.NO_READER if row.topic == report_mail.TOPIC else TARGET_GONE
                await self._mark(row, state=FAILED, last_error=gone)
            elif target.kind == EMAIL and not self._settings.smtp_host:
                later = now_ms() + MAIL_WAIT_MS
                await self._mark(row, next_attempt_ms=later, first_sent_ms=None, last_error=NO_MAIL_SERVER)
            else:
                await self._send(client, row, target)
                await self._mark(row, state=SENT, attempts=row.attempts + 1, last_error="")
        except NotDelivered as error:
            await self._again(row, str(error))
        except (DBAPIError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  (one message must not stop the others, or posting)
            log.error("outbox.send_failed", tenant=row.tenant_id, message=row.id, error=error_summary(error))
            await self._again(row, f"{type(error).__name__}")

    async def _send(self, client: "httpx.AsyncClient", row: Outbox, target: AlertTarget) -> None:
        payload = await with_names(self._db, row.tenant_id, row.payload)
        if target.kind == EMAIL:
            subject, text = mail_text(payload)
            await send_mail(self._settings, target.address, subject, text, row.id)
            return
        webhook = Webhook(target.address, target.secret, self._settings.alert_private_targets)
        body = json.dumps(payload, separators=(",", ":")).encode()  # ASCII, safe to print
        await send_webhook(client, webhook, row.id, body, now_ms() // 1000)

    async def _again(self, row: Outbox, why: str) -> None:
        at_ms, attempts = now_ms(), row.attempts + 1
        assert row.first_sent_ms is not None
        later = next_attempt_ms(attempts, row.first_sent_ms, at_ms, random.random())
        log.warning(
            "outbox.delivery_failed", tenant=row.tenant_id, message=row.id, attempts=attempts, why=why
        )
        facts = {"state": FAILED} if later is None else {"next_attempt_ms": later}
        await self._mark(row, attempts=attempts, last_error=why, **facts)

    async def _mark(self, row: Outbox, **facts: object) -> None:
        """Store a message's outcome, where this sender still owns it."""
        ended = now_ms() if facts.get("state") in (SENT, FAILED) else None
        statement = (
            update(Outbox)
            .where(
                col(Outbox.tenant_id) == row.tenant_id,
                col(Outbox.id) == row.id,
                col(Outbox.claimed_by) == self._name,
                col(Outbox.state) == WAITING,
            )
            .values(claimed_by="", claimed_until_ms=0, ended_ms=ended, **facts)
        )
        async with self._db.transaction() as session:
            await (await session.connection()).execute(statement)

    async def _forget(self) -> None:
        """Delete, now and then, messages sent or given up long ago, and sums and alerts of windows long
        past."""
        at_ms = now_ms()
        if at_ms - self._forgot_ms < FORGET_MS:
            return
        self._forgot_ms = at_ms
        ended = col(Outbox.state).in_((SENT, FAILED)), col(Outbox.next_attempt_ms) < at_ms - KEEP_MS
        past = col(BudgetSpent.window_end_ms) < at_ms - SUMS_KEEP_MS
        told = (
            col(BudgetAlert.created_ms) < at_ms - SUMS_KEEP_MS,
            col(BudgetAlert.period).in_((Period.DAY.value, Period.WEEK.value, Period.MONTH.value)),
        )
        async with self._db.transaction() as session:
            connection = await session.connection()
            await connection.execute(delete(Outbox).where(*ended))
            await connection.execute(delete(BudgetSpent).where(past))
            await connection.execute(delete(BudgetAlert).where(*told))


async def _target_of(session: AsyncSession, row: Outbox) -> AlertTarget | None:
    """Where a message goes: to a target, or of a report to a member, if they may see money now."""
    if row.topic != report_mail.TOPIC:
        return await session.get(AlertTarget, (row.tenant_id, row.target_id))
    address = (await report_mail.readers_of(session, row.tenant_id)).get(row.target_id)
    if address is None:
        return None
    return AlertTarget(tenant_id=row.tenant_id, id=row.target_id, kind=EMAIL, address=address, created_ms=0)


def _in_turn(due: Sequence[ColumnElement[bool]]) -> SelectOfScalar[Outbox]:
    """Due messages that no other sender owns: the oldest of each tenant, then the second, and so on, so that
    a tenant's slow receivers hold up only its own messages."""
    tenant, id, when = col(Outbox.tenant_id), col(Outbox.id), col(Outbox.next_attempt_ms)
    turn = func.row_number().over(partition_by=tenant, order_by=(when, id)).label("turn")
    turns = select(tenant, id, turn).where(*due).subquery()
    its_own = and_(turns.c.tenant_id == tenant, turns.c.id == id)
    statement = select(Outbox).join(turns, its_own).where(*due).order_by(turns.c.turn, when)
    return statement.with_for_update(skip_locked=True, of=Outbox)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
