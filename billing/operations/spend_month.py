"""What questions about a tenant's spend in a month have in common."""

from datetime import date, datetime
from typing import Annotated, NamedTuple

from msgspec import Meta

from billing.operations.known_times import known_month
from billing.operations.shared_fields import NameTenant
from billing.periods import Calendar, PeriodWindow, month_text
from billing.prices.calendars import calendar_of
from billing.unit_of_work.units import Look

SPENT_FROM = "tenant period_close rollup_hour rollup_price usage_line usage_event charge ledger_head"


class AskMonth(NameTenant, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None


class ReportedMonth(NamedTuple):
    """The month of a question. `number`: as calendars count; `window`: all of it."""

    tenant_id: str
    calendar: Calendar
    number: int
    window: PeriodWindow
    now_ms: int

    @property
    def text(self) -> str:
        """`2026-10`."""
        return month_text(self.number)

    @property
    def zone(self) -> str:
        """The zone of its days."""
        return str(self.calendar.zone_of(self.number))

    def date_of(self, at_ms: int) -> date:
        """The local date of an instant, by the zone of its month."""
        return local_date(self.calendar, at_ms)


async def reported_month(look: Look, ask: AskMonth) -> ReportedMonth:
    """Look up whose month it is. Raises Refused."""
    owner = await look.tenant(ask.tenant)
    calendar, now = await calendar_of(look.db, owner), look.now_ms()
    window = await known_month(look, owner, calendar, ask.month)
    return ReportedMonth(owner.tenant_id, calendar, calendar.month_at(window.start_ms), window, now)


def local_date(calendar: Calendar, at_ms: int) -> date:
    """The date of an instant in the zone that its month has. Pure."""
    return datetime.fromtimestamp(at_ms / 1000, calendar.zone_of(calendar.month_at(at_ms))).date()
