"""The operation that shows a tenant's statement: a month's lines, grouped, and their total."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.closing.period_close import closing_gaps_of
from billing.operations.known_times import known_as_of, known_month
from billing.operations.shared_fields import NameTenant
from billing.periods import Calendar, PeriodWindow, month_text
from billing.prices.calendars import calendar_of
from billing.reports.usage_names import names_of
from billing.reports.usage_questions import Facet
from billing.reports.usage_report import (
    SUMS,
    GroupBy,
    RankedUsage,
    UsageSums,
    ranked_usage,
    sum_of,
    usage_as_of,
    usage_in,
)
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import bad_request
from core.operations import LISTED_DEFAULT, LISTED_MAX, PAYERS, STAFF, MoneyAmount, Uses, operation

NAMED = {
    GroupBy.PROJECT: Facet.PROJECT,
    GroupBy.COST_CENTER: Facet.COST_CENTER,
    GroupBy.USER: Facet.USER,
    GroupBy.KEY: Facet.KEY,
}


class AskStatement(NameTenant, frozen=True, kw_only=True):
    """Which month, and by what."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None
    by: Annotated[GroupBy, Meta(description="What a line sums up.")] = GroupBy.PROJECT
    as_of: Annotated[
        str,
        Meta(description="As the books said at this time, like 2026-10-01T12:00:00+02:00; not by day."),
    ] = ""
    limit: Annotated[
        int, Meta(ge=1, le=LISTED_MAX, description="How many lines at most; the others are one more.")
    ] = LISTED_DEFAULT
    skip: Annotated[int, Meta(ge=0, description="How many lines were listed before: those behind them.")] = 0


class StatementSums(msgspec.Struct, frozen=True):
    """What was used, and what it cost."""

    requests: int
    errors: int
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    cost: MoneyAmount

    @classmethod
    def of(cls, all: UsageSums, without: Sequence[UsageSums] = ()) -> "StatementSums":
        """These sums, without those of some of their groups."""
        less = sum_of(without)
        left = {name: getattr(all, name) - getattr(less, name) for name in SUMS}
        nano = left.pop("amount_nano")
        return cls(**left, cost=MoneyAmount.of(nano))


class StatementLine(msgspec.Struct, frozen=True):
    """A line. `of`: an id, a model, a pool or a day; empty: nobody's; `name`: as people know it."""

    of: str
    name: str
    sums: StatementSums


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A month of a tenant's books; days are in order, else the most expensive comes first. `others`: the sum
    of the `more` lines behind those listed; `lacks`: what a forced close left out."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    closed: bool
    lacks: str
    by: GroupBy
    lines: list[StatementLine]
    more: int
    others: StatementSums
    total: StatementSums


@operation(
    "usage.statement",
    "GET /tenants/{tenant}/statement",
    may=STAFF | PAYERS,
    uses=Uses(
        reads="tenant project cost_center api_key tenant_user period_close rollup_hour usage_line "
        "usage_event charge"
    ),
)
async def show_statement(look: Look, ask: AskStatement) -> Statement:
    """Show a month's use and cost, by line and in all. A request counts in the moment when it ended."""
    owner = await look.tenant(ask.tenant)
    calendar = await calendar_of(look.db, owner)
    now = look.now_ms()
    window = await known_month(look, owner, calendar, ask.month)
    known_ms = known_as_of(ask.as_of, calendar.zone, now)
    most = ask.skip + ask.limit
    if known_ms is not None:
        if ask.by is GroupBy.DAY:
            raise bad_request("an earlier time does not go with days: choose another", field="as_of")
        books = await usage_as_of(look.db, owner.tenant_id, window, ask.by, known_ms)
        found = RankedUsage.of(books, most)
    elif ask.by is GroupBy.DAY:
        days = await usage_in(look.db, owner.tenant_id, window, ask.by, calendar)
        found = RankedUsage.of([each for each in days if int(each.group) <= now], most)
    else:
        found = await ranked_usage(look.db, owner.tenant_id, window, ask.by, most)
    listed = found.first[ask.skip :]
    names = await _names(look, owner.tenant_id, ask.by, listed)
    return Statement(
        tenant=owner.tenant_id,
        month=_written(window, calendar),
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        time_zone=str(calendar.zone_of(calendar.month_at(window.start_ms))),
        closed=calendar.month_at(window.start_ms) in calendar.closed,
        lacks=await closing_gaps_of(look.db, owner.tenant_id, window),
        by=ask.by,
        lines=[_line(each, names, ask.by, calendar) for each in listed],
        more=found.groups - len(found.first),
        others=StatementSums.of(found.total, found.first),
        total=StatementSums.of(found.total),
    )


def _written(window: PeriodWindow, calendar: Calendar) -> str:
    return month_text(calendar.month_at(window.start_ms))


async def _names(look: Look, tenant_id: str, by: GroupBy, found: Sequence[UsageSums]) -> Mapping[str, str]:
    facet = NAMED.get(by)
    return {} if facet is None else await names_of(look.db, tenant_id, facet, [each.group for each in found])


def _line(sums: UsageSums, names: Mapping[str, str], by: GroupBy, calendar: Calendar) -> StatementLine:
    of = sums.group
    if by is GroupBy.DAY:
        start_ms = int(of)
        zone = calendar.zone_of(calendar.month_at(start_ms))
        of = datetime.fromtimestamp(start_ms // 1000, zone).date().isoformat()
    return StatementLine(of, names.get(of, of), StatementSums.of(sums))


OPERATIONS = (show_statement,)
