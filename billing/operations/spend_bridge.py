"""The operation that explains why a month costs more or less than the one before it."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.transactions import LineKind
from billing.operations.spend_month import SPENT_FROM, AskMonth, ReportedMonth, reported_month
from billing.periods import PeriodWindow, month_text
from billing.reports.bridge_windows import BridgeAgainst, BridgeSpan, BridgeSpans, bridge_spans
from billing.reports.bridge_words import BridgeFacts, Corrected, bridge_words
from billing.reports.price_comparison import Month, compare, month_sums, total
from billing.reports.priced_sums import PricedSums, corrections_in, priced_sums
from billing.tables.tenants import PLATFORM, PriceVersion
from billing.unit_of_work.units import Look
from core.errors import bad_request
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation


class AskBridge(AskMonth, frozen=True, kw_only=True):
    """Which month, and what of the month before it."""

    against: Annotated[
        BridgeAgainst | None,
        Meta(
            description="With the same days of the month before, or with all of that month; by default the "
            "same days of a month that runs, else all of it."
        ),
    ] = None


class SpanBill(msgspec.Struct, frozen=True):
    """What a span of days cost. `name`: like "1 to 17 November"."""

    month: str
    name: str
    days: int
    cost: MoneyAmount


class BridgePart(StrEnum):
    """A part of the difference, in the order in which they are taken."""

    VOLUME = "volume"
    MIX = "mix"
    PRICE = "price"
    TIERS = "tiers"
    CORRECTIONS = "corrections"


class BridgeStep(msgspec.Struct, frozen=True):
    """A part of the difference, and why."""

    part: BridgePart
    why: str
    amount: MoneyAmount


class SpendBridge(msgspec.Struct, frozen=True, kw_only=True):
    """Two spans of days, and the parts of their difference, which add up to the nano. `open_day`: the day
    that runs is left out."""

    tenant: str
    against: BridgeAgainst
    before: SpanBill
    after: SpanBill
    open_day: bool
    difference: MoneyAmount
    steps: list[BridgeStep]


@operation(
    "spend.bridge",
    "GET /tenants/{tenant}/spend/bridge",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"{SPENT_FROM} price_version"),
)
async def show_bridge(look: Look, ask: AskBridge) -> SpendBridge:
    """Explain why a month costs more or less than the month before, in parts that add up to the nano."""
    month = await reported_month(look, ask)
    try:
        spans = bridge_spans(month.calendar, month.number, ask.against, month.now_ms)
    except ValueError as error:
        raise bad_request(f"there is no month before {month.text}", field="month") from error
    sums = [await priced_sums(look.db, month.tenant_id, each.window) for each in (spans.before, spans.after)]
    facts = await _facts(look, month, spans, sums)
    found = total(compare(facts.before, facts.after).values())
    words = bridge_words(facts)
    return SpendBridge(
        tenant=month.tenant_id,
        against=spans.against,
        before=_bill(spans.before, found.before_nano),
        after=_bill(spans.after, found.after_nano),
        open_day=spans.open_day,
        difference=MoneyAmount.of(found.difference_nano),
        steps=[
            BridgeStep(part, words[part.value], MoneyAmount.of(getattr(found, f"{part.value}_nano")))
            for part in BridgePart
        ],
    )


def _bill(span: BridgeSpan, nano: int) -> SpanBill:
    return SpanBill(month_text(span.month), span.name, span.days, MoneyAmount.of(nano))


async def _facts(
    look: Look, month: ReportedMonth, spans: BridgeSpans, sums: Sequence[Sequence[PricedSums]]
) -> BridgeFacts:
    versions = {(each.book, each.version) for each in sums[1] if each.book}
    async with look.db.session() as session:
        version = await _newest(session, month, versions, spans.before.window.start_ms)
    before, after = month_sums(sums[0]), month_sums(sums[1])
    return BridgeFacts(
        before=before,
        after=after,
        months=(spans.before.month, spans.after.month),
        closed=month.number in month.calendar.closed,
        tiers_before_nano=await _tiers_before(look, month, spans.before, before),
        version=version,
        corrected=(
            await _corrected(look, month, spans.before.window, sums[0]),
            await _corrected(look, month, spans.after.window, sums[1]),
        ),
    )


async def _tiers_before(look: Look, month: ReportedMonth, span: BridgeSpan, sums: Month) -> int:
    """What tiers made of all of the month before: they are booked to its last day."""
    if span.days < span.of:
        earlier = month.calendar.window(month.number - 1)
        sums = month_sums(await priced_sums(look.db, month.tenant_id, earlier, LineKind.TRUE_UP))
    return sum(each.tiers_nano for each in sums.values())


async def _corrected(
    look: Look, month: ReportedMonth, window: PeriodWindow, sums: Sequence[PricedSums]
) -> Corrected:
    if not any(each.kind == LineKind.ADJUST for each in sums):
        return ()
    days: dict[str, int] = {}
    for each in await corrections_in(look.db, month.tenant_id, window):
        day = month.date_of(each.hour_ms).isoformat()
        days[day] = days.get(day, 0) + each.amount_nano
    return sorted(days.items())


async def _newest(
    session: AsyncSession, month: ReportedMonth, used: Collection[tuple[str, int]], since_ms: int
) -> tuple[int, str] | None:
    """The newest of these versions (book, number) that began after the earlier span did, and when."""
    statement = select(PriceVersion.book_id, PriceVersion.version, PriceVersion.valid_from_ms).where(
        col(PriceVersion.book_id).in_({book for book, _ in used}),
        col(PriceVersion.version).in_({number for _, number in used}),
        col(PriceVersion.tenant_id).in_((PLATFORM, month.tenant_id)),
        col(PriceVersion.valid_from_ms) > since_ms,
    )
    rows = (await session.exec(statement)).all()
    found = [(began, number) for book, number, began in rows if (book, number) in used]
    if not found:
        return None
    began, number = max(found)
    return number, month.date_of(began).isoformat()


OPERATIONS = (show_bridge,)
