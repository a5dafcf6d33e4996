"""Operations that show a tenant's cost by two facts at once, for those who charge it to others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy.exc import DBAPIError
from sqlmodel import col, select

from billing.closing.period_close import closes_of, closing_gaps_of
from billing.ledger.declared_tags import tag_spans
from billing.ledger.tag_rollups import TagSpan
from billing.operations.known_times import known_as_of, known_month
from billing.operations.shared_fields import NameTenant
from billing.periods import Calendar, PeriodWindow, month_text
from billing.prices.calendars import calendar_of
from billing.reports.chargeback import (
    LAST,
    NOBODY,
    OTHER,
    TIERS,
    ChargebackQuestion,
    CostMatrix,
    Fact,
    MatrixHead,
    TagFact,
)
from billing.reports.chargeback_sums import SECONDS_MAX, read_matrix
from billing.reports.spend_series import bucket_costs
from billing.reports.usage_names import NAMED, names_of
from billing.reports.usage_questions import Facet, UsageBucket, UsageQuestion
from billing.tables.ledger import CostCenter
from billing.tables.prices import PeriodClose
from billing.tables.tenants import Tenant
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import Refusal, Refused, bad_request, see_help
from core.operations import PAYERS, STAFF, ListedPage, MoneyAmount, Uses, operation
from core.sql.database import is_out_of_time

BOOKS = (
    "tenant project cost_center api_key tenant_user period_close rollup_hour usage_line usage_event charge "
    "ledger_head rollup_tag tag_key"
)
MONTHS_MAX = 13


FACT = r"^(cost_center|project|model|user|key|pool|tag:[A-Za-z0-9_.\-]{1,64})$"
ANY_OF = "cost_center, project, model, user, key, pool, or tag:KEY of a declared tag."
TAG = "tag:"


class HeadKind(StrEnum):
    """What a row or column stands for. Tiers: what a month's close booked; nobody: usage without this fact;
    other: all that is not named by itself."""

    VALUE = "value"
    TIERS = "tiers"
    NOBODY = "nobody"
    OTHER = "other"


KINDS: dict[str, HeadKind] = {
    TIERS: HeadKind.TIERS,
    NOBODY: HeadKind.NOBODY,
    OTHER: HeadKind.OTHER,
}


class AskChargeback(NameTenant, frozen=True, kw_only=True):
    """Which month, by what, and as of when."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None
    rows: Annotated[str, Meta(pattern=FACT, description=f"What a row sums up: {ANY_OF}")] = "cost_center"
    columns: Annotated[str, Meta(pattern=FACT, description=f"What a column sums up: {ANY_OF}")] = "model"
    only: Annotated[
        str,
        Meta(max_length=200, description="Only usage with a tag, KEY, or with one value of it, KEY=VALUE."),
    ] = ""
    as_of: Annotated[
        str, Meta(description="As the books said at this time, like 2026-10-01T12:00:00+02:00.")
    ] = ""
    top_rows: Annotated[
        int, Meta(ge=1, le=1000, description="How many rows are named; all others are one more.")
    ] = 50
    top_columns: Annotated[
        int, Meta(ge=1, le=100, description="How many columns are named; all others are one more.")
    ] = 8


class ChargebackHead(msgspec.Struct, frozen=True, kw_only=True):
    """A row or a column. `of`: its id or model or pool; `name`: as people know it; `more`: how many it stands
    for, where it stands for others."""

    kind: HeadKind
    of: str
    name: str
    more: int
    total: MoneyAmount


class ChargebackRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row: what it is, and an amount for each column."""

    head: ChargebackHead
    cells: list[MoneyAmount]


class ChargebackReport(msgspec.Struct, frozen=True, kw_only=True):
    """A month's cost by row and column; the cells add up to the total. `closed`: when the month was closed,
    by the books as they stood then; `lacks`: what a forced close left out; `as_of` None: now."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    closed: str | None
    lacks: str
    as_of: str | None
    rows: str
    columns: str
    only: str
    heads: list[ChargebackHead]
    lines: list[ChargebackRow]
    total: MoneyAmount


class ChargebackMonth(msgspec.Struct, frozen=True, kw_only=True):
    """A month with what it costs: so far, where `closed` is None."""

    month: str
    closed: str | None
    cost: MoneyAmount


@operation(
    "chargeback.report", "GET /tenants/{tenant}/chargeback", may=STAFF | PAYERS, uses=Uses(reads=BOOKS)
)
async def report(look: Look, ask: AskChargeback) -> ChargebackReport:
    """Show a month's cost by two facts at once, now or as the books said at an earlier time.

    A request counts in the moment when it ended. The most expensive rows and columns are named, all others
    are one more each."""
    if ask.rows == ask.columns:
        raise bad_request("rows and columns are the same: choose two", field="columns")
    owner = await look.tenant(ask.tenant)
    found = await charged_month(look, owner, ask)
    key, _, value = ask.only.partition("=")
    async with look.db.session() as session:
        spans = (await tag_spans(session, [owner.tenant_id])).get(owner.tenant_id, [])
    question = ChargebackQuestion(
        tenant_id=owner.tenant_id,
        window=found.window,
        rows=_fact(ask.rows, "rows", spans),
        columns=_fact(ask.columns, "columns", spans),
        rows_max=ask.top_rows,
        columns_max=ask.top_columns,
        known_ms=found.known_ms,
        spans=spans,
        only=_only(key, spans),
        only_value=value,
    )
    matrix = await _read(look, question)
    lacks = await closing_gaps_of(look.db, owner.tenant_id, found.window) if found.closed_ms else ""
    row_names = await _names(look, owner.tenant_id, question.rows, matrix.rows)
    column_names = await _names(look, owner.tenant_id, question.columns, matrix.columns)
    return ChargebackReport(
        tenant=owner.tenant_id,
        month=found.month,
        start=iso_time(found.window.start_ms),
        end=iso_time(found.window.end_ms),
        time_zone=str(found.calendar.zone_of(found.calendar.month_at(found.window.start_ms))),
        closed=iso_time(found.closed_ms),
        lacks=lacks,
        as_of=iso_time(found.known_ms),
        rows=ask.rows,
        columns=ask.columns,
        only=ask.only,
        heads=[_head(each, column_names) for each in matrix.columns],
        lines=[
            ChargebackRow(head=_head(head, row_names), cells=[MoneyAmount.of(nano) for nano in cells])
            for head, cells in zip(matrix.rows, matrix.cells, strict=True)
        ],
        total=MoneyAmount.of(matrix.total_nano),
    )


@operation(
    "chargeback.months",
    "GET /tenants/{tenant}/chargeback/months",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"{BOOKS} rollup_price"),
)
async def list_months(look: Look, ask: NameTenant) -> ListedPage[ChargebackMonth]:
    """List this month and the twelve before it with what each costs, the newest first; none from before the
    first that was used or closed."""
    owner = await look.tenant(ask.tenant)
    calendar = await calendar_of(look.db, owner)
    last = calendar.month_at(look.now_ms())
    windows = {number: calendar.window(number) for number in range(last - MONTHS_MAX + 1, last + 1)}
    whole = PeriodWindow(windows[last - MONTHS_MAX + 1].start_ms, windows[last].end_ms)
    question = UsageQuestion(owner.tenant_id, whole, calendar, bucket=UsageBucket.MONTH)
    costs = await bucket_costs(look.db, question)
    closes = await _closes(look, owner.tenant_id)
    begun = min(costs, default=windows[last].start_ms)
    begun = min([begun, *(each.start_ms for each in closes.values())])
    return ListedPage(
        [
            ChargebackMonth(
                month=month_text(number),
                closed=iso_time(closes[window].closed_ms) if window in closes else None,
                cost=MoneyAmount.of(costs.get(window.start_ms, 0)),
            )
            for number, window in reversed(windows.items())
            if window.end_ms > begun
        ],
        None,
    )


@dataclass(frozen=True)
class ChargedMonth:
    """The month that is asked for. `known_ms`: as of when, None: now; `closed_ms`: when it was closed, if it
    was by then."""

    month: str
    window: PeriodWindow
    calendar: Calendar
    known_ms: int | None
    closed_ms: int | None


async def charged_month(look: Look, owner: Tenant, ask: AskChargeback) -> ChargedMonth:
    """Find the month that is asked for. Raises Refused, with the field, for what is none."""
    calendar = await calendar_of(look.db, owner)
    now = look.now_ms()
    window = await known_month(look, owner, calendar, ask.month)
    known_ms = known_as_of(ask.as_of, calendar.zone, now)
    closed_ms = await _closed_ms(look, owner.tenant_id, window, known_ms)
    month = month_text(calendar.month_at(window.start_ms))
    return ChargedMonth(month, window, calendar, known_ms, closed_ms)


async def _read(look: Look, question: ChargebackQuestion) -> CostMatrix:
    try:
        return await read_matrix(look.db, question)
    except DBAPIError as error:
        if not is_out_of_time(error):
            raise
        told = f"this takes longer than {SECONDS_MAX:.0f} s: ask for it as of now, or by other facts"
        raise Refused(Refusal("overloaded", told, retry=True)) from error


async def _closes(look: Look, tenant_id: str) -> dict[PeriodWindow, PeriodClose]:
    async with look.db.session() as session:
        return {
            PeriodWindow(each.start_ms, each.end_ms): each for each in await closes_of(session, tenant_id)
        }


async def _closed_ms(look: Look, tenant_id: str, window: PeriodWindow, known_ms: int | None) -> int | None:
    """When a month was closed, if it was by then."""
    close = (await _closes(look, tenant_id)).get(window)
    return (
        close.closed_ms if close is not None and (known_ms is None or close.closed_ms <= known_ms) else None
    )


def _fact(asked: str, field: str, spans: Sequence[TagSpan]) -> Facet | TagFact:
    """The fact that is asked for. Raises Refused for a tag that was never declared."""
    if not asked.startswith(TAG):
        return Facet(asked)
    key = asked.removeprefix(TAG)
    if not any(span.key == key for span in spans):
        raise bad_request(f"{key!r} is no declared tag", field=field, see=see_help("tags.declare"))
    return TagFact(key)


def _only(key: str, spans: Sequence[TagSpan]) -> TagFact | None:
    found = _fact(f"{TAG}{key}", "only", spans) if key else None
    return found if isinstance(found, TagFact) else None


async def _names(look: Look, tenant_id: str, facet: Fact, heads: Sequence[MatrixHead]) -> Mapping[str, str]:
    ids = [head.value for head in heads if head.value not in LAST]
    if facet is Facet.COST_CENTER and ids:
        statement = select(CostCenter).where(
            col(CostCenter.tenant_id) == tenant_id, col(CostCenter.id).in_(ids)
        )
        async with look.db.session() as session:
            found = (await session.exec(statement)).all()
        return {row.id: row.code if row.name in ("", row.code) else f"{row.code} {row.name}" for row in found}
    if isinstance(facet, TagFact) or facet not in NAMED:
        return {}
    return await names_of(look.db, tenant_id, facet, ids)


def _head(head: MatrixHead, names: Mapping[str, str]) -> ChargebackHead:
    kind = KINDS.get(head.value, HeadKind.VALUE)
    of = "" if head.value in (OTHER, TIERS) else head.value
    return ChargebackHead(
        kind=kind, of=of, name=names.get(of, of), more=head.more, total=MoneyAmount.of(head.total_nano)
    )


OPERATIONS = (report, list_months)
