"""Months, days and times that reports are asked for: what has not begun, or was before a tenant's first
usage, is refused with what is possible."""

from datetime import date
from zoneinfo import ZoneInfo

from sqlmodel import col, select

from billing.periods import Calendar, PeriodWindow, local_instant, month_text, window_of_month
from billing.tables.ledger import RollupHour
from billing.tables.tenants import Tenant
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import bad_request

CLOCKS_APART_MS = 60_000  # a caller's clock may be ahead of ours


async def known_month(look: Look, owner: Tenant, calendar: Calendar, month: str | None) -> PeriodWindow:
    """The month that is named, by default this one. Raises Refused for what is none of this tenant's."""
    now = look.now_ms()
    window = begun_month(month, calendar, now)
    await _check_known(look, owner, calendar, window, "month")
    return window


def begun_month(month: str | None, calendar: Calendar, now_ms: int) -> PeriodWindow:
    """The month that is named, by default this one. Raises Refused where it has not begun. Pure."""
    newest = month_text(calendar.month_at(now_ms))
    window = window_of_month(month or newest, calendar, "month")
    if window.start_ms > now_ms:
        raise bad_request(f"{month} has not begun: the newest month is {newest}", field="month")
    return window


async def check_day(look: Look, owner: Tenant, calendar: Calendar, day: str) -> None:
    """Raise Refused for a day, written as 2026-10-01, of a month before the tenant's first. What is no day is
    left to who reads it."""
    try:
        at = date.fromisoformat(day)
        window = calendar.window(at.year * 12 + at.month - 1)
    except (ValueError, OverflowError):
        return
    await _check_known(look, owner, calendar, window, "day")


def known_as_of(as_of: str, zone: ZoneInfo, now_ms: int) -> int | None:
    """The time as of which books are read; None: now. Raises Refused for one that has not come."""
    if not as_of:
        return None
    known_ms = local_instant(as_of, zone, "as_of")
    if known_ms > now_ms + CLOCKS_APART_MS:
        told = f"{as_of} has not come: the books are known up to now, {iso_time(now_ms)}"
        raise bad_request(told, field="as_of")
    return known_ms if known_ms < now_ms else None


async def _check_known(
    look: Look, owner: Tenant, calendar: Calendar, window: PeriodWindow, field: str
) -> None:
    """Raise Refused where a month ended before the tenant was made, and before its first usage."""
    if window.end_ms > owner.created_ms:
        return
    hour = col(RollupHour.hour_ms)
    earliest = select(hour).where(col(RollupHour.tenant_id) == owner.tenant_id).order_by(hour).limit(1)
    async with look.db.session() as session:
        used = (await session.exec(earliest)).all()
    closed = [each.window.start_ms for each in calendar.closed.values()]
    first_ms = max(0, min([owner.created_ms, *closed, *used]))
    if window.end_ms <= first_ms:
        month = month_text(calendar.month_at(window.start_ms))
        first = month_text(calendar.month_at(first_ms))
        raise bad_request(f"there is nothing of {month}: {owner.name} begins in {first}", field=field)
