"""Closes months that are over, some hours after their end in each tenant's zone, and never by force.

Any number of billers may do it: a close is one transaction under the tenant's lock, so a second one finds the
month closed, and what a death takes, it takes whole. A month with usage under way stays open until a later
look, is told in the log and to the operators' targets, and holds up no other tenant.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import col, select

from billing import instruments
from billing.budgets.thresholds import message
from billing.closing.due_months import next_due_month
from billing.closing.period_close import CloseOptions, MonthNotWhole, close_period
from billing.closing.period_gaps import gaps_text
from billing.closing.under_way import usage_under_way
from billing.periods import HOUR_MS, month_text
from billing.prices.calendars import calendar_of
from billing.tables.tenants import PLATFORM, Tenant
from billing.tables.wallets import AlertTarget
from billing.tenants.tenancy import list_tenants
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.runtime.failed_rounds import is_store_down, logged_failures
from core.sql.database import Database, insert_ignore

log = logger(__name__)

LOOK_SECONDS = 300.0  # also before the first look: a biller that dies at once sums no months at once
MONTHS_AT_ONCE = 24  # of one tenant in one look
DAY_MS = 24 * HOUR_MS


class LeftOpen(NamedTuple):
    """A month that was due and is open, and why."""

    tenant: str
    month: str
    why: str


async def close_months_forever(
    db: Database, redis: RedisClient, settings: Settings, stop: asyncio.Event
) -> None:
    """Look every LOOK_SECONDS until `stop` is set; not at all where the setting is 0."""
    while settings.close_months_after_hours:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await stop.wait()
            return
        except TimeoutError:
            with logged_failures(log, "months.look_failed"):
                await close_due_months(db, redis, settings)


async def close_due_months(db: Database, redis: RedisClient, settings: Settings) -> list[LeftOpen]:
    """Close all months that are due; return those that stay open."""
    left: list[LeftOpen] = []
    for tenant in await list_tenants(db):
        try:
            if (found := await _close_those_of(db, redis, settings, tenant)) is not None:
                left.append(found)
        except Exception as error:
            if is_store_down(error):
                raise
            log.error("months.close_failed", tenant=tenant.tenant_id, **error_facts(error))
    instruments.show_months_left_open(len(left))
    for each in left:
        log.warning("months.left_open", tenant=each.tenant, month=each.month, why=each.why)
    await _tell_operators(db, left)
    return left


async def _close_those_of(
    db: Database, redis: RedisClient, settings: Settings, tenant: Tenant
) -> LeftOpen | None:
    """Close a tenant's due months in their order, up to one that has to stay open."""
    after_ms = settings.close_months_after_hours * HOUR_MS
    for _ in range(MONTHS_AT_ONCE):
        calendar = await calendar_of(db, tenant)
        number = await next_due_month(db, tenant, calendar, now_ms(), after_ms)
        if number is None:
            return None
        window, month = calendar.window(number), month_text(number)
        found = await usage_under_way(redis, settings, tenant.tenant_id, window.end_ms)
        try:
            closing = await close_period(db, tenant, month, window, CloseOptions(found))
        except Refused as refused:
            why = gaps_text(refused.lacks) if isinstance(refused, MonthNotWhole) else refused.refusal.message
            return LeftOpen(tenant.tenant_id, month, why)
        if closing.booked_now:  # else another biller was first
            amount = closing.amount_nano
            log.info("months.closed", tenant=tenant.tenant_id, month=month, amount_nano=amount)
    return None


async def _tell_operators(db: Database, left: Sequence[LeftOpen]) -> None:
    """Tell the operators' targets of each month that stays open, once a day."""
    if not left:
        return
    targets = select(AlertTarget).where(
        col(AlertTarget.tenant_id) == PLATFORM, col(AlertTarget.ended_ms).is_(None)
    )
    now = now_ms()
    async with db.transaction() as session:
        found = (await session.exec(targets)).all()
        messages = [
            message(target, f"month.left_open:{each.tenant}:{each.month}:{now // DAY_MS}", _facts(each), now)
            for target in found
            for each in left
        ]
        await insert_ignore(session, messages)


def _facts(left: LeftOpen) -> dict[str, str]:
    return {"type": "month.left_open", "of_tenant": left.tenant, "month": left.month, "why": left.why}
