"""Tells members by mail that a report is there: each period once, whichever biller dies. The mails and that
they were made are one transaction; the outbox delivers them."""

import asyncio
from urllib.parse import urlencode

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.alerts.report_mail import REPORT_READY, TOPIC, readers_of
from billing.closing.period_close import closes_of
from billing.closing.report_times import DueReport, ReportEvery, due_month, due_week
from billing.periods import zone_named
from billing.tables.report_schedules import ReportSchedule
from billing.tables.tenants import Tenant
from billing.tables.wallets import Outbox
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.observability.telemetry import logger
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database, insert_ignore
from core.web.local_urls import portal_url

log = logger(__name__)

ROUND_SECONDS = 60.0


class ReportSchedules:
    """The schedules of all tenants, as one biller goes through them."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings

    async def run(self, stop: asyncio.Event) -> None:
        """Look each minute until `stop` is set."""
        while not stop.is_set():
            with logged_failures(log, "reports.run_failed"):
                await self.tell_due(now_ms())
            try:
                async with asyncio.timeout(ROUND_SECONDS):
                    await stop.wait()
            except TimeoutError:
                pass

    async def tell_due(self, at_ms: int) -> int:
        """Put mails for all reports that are due into the outbox; return how many reports are told of."""
        told = 0
        for tenant_id, id in await self._open():
            async with self._db.transaction() as session:
                told += await self._tell(session, tenant_id, id, at_ms)
        return told

    async def _open(self) -> list[tuple[str, str]]:
        """All schedules."""
        statement = select(ReportSchedule.tenant_id, ReportSchedule.id).where(
            col(ReportSchedule.ended_ms).is_(None)
        )
        async with self._db.session() as session:
            return [(tenant, id) for tenant, id in (await session.exec(statement)).all()]

    async def _tell(self, session: AsyncSession, tenant_id: str, id: str, at_ms: int) -> bool:
        row = await session.get(ReportSchedule, (tenant_id, id), with_for_update=True)
        tenant = await session.get(Tenant, tenant_id)
        if row is None or row.ended_ms is not None or tenant is None or tenant.closed_ms is not None:
            return False
        due = await _due(session, row, tenant, at_ms)
        if due is None or due.period == row.last_period:
            return False
        readers = await readers_of(session, tenant_id)
        wanted = [person for person in sorted(readers) if not row.people or person in row.people]
        await insert_ignore(session, [self._mail(row, due, person, at_ms) for person in wanted])
        row.last_period, row.last_ms = due.period, at_ms
        session.add(row)
        log.info("reports.told", tenant=tenant_id, schedule=id, people=len(wanted))
        return True

    def _mail(self, row: ReportSchedule, due: DueReport, person: str, at_ms: int) -> Outbox:
        asked = {"month": due.month, "rows": row.rows, "columns": row.columns, "only": row.only}
        query = urlencode({name: value for name, value in asked.items() if value})
        message = uuid7(at_ms)
        link = f"{portal_url(self._settings)}/portal/chargeback?{query}"
        return Outbox(
            tenant_id=row.tenant_id,
            id=message,
            topic=TOPIC,
            target_id=person,
            idempotency_key=f"{TOPIC}:{row.id}:{due.period}:{person}",
            payload={"id": message, "type": REPORT_READY, "period": due.period, "link": link},
            next_attempt_ms=at_ms,
            created_ms=at_ms,
        )


async def _due(session: AsyncSession, row: ReportSchedule, tenant: Tenant, at_ms: int) -> DueReport | None:
    zone, since_ms = zone_named(tenant.time_zone), row.last_ms or row.created_ms
    if row.every == ReportEvery.WEEK:
        return due_week(zone, since_ms, at_ms)
    closes = [(each.month, each.closed_ms) for each in await closes_of(session, row.tenant_id)]
    return due_month(closes, zone, row.created_ms, at_ms)
