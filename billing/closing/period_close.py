"""Closes a tenant's months: books the differences by tiers, minimums and commitments, once.

Late usage of a closed month is trued up at the close of the next one, by lines of that month that name the
month they are for. Months are closed in order; every instant belongs to one.

A month is not closed while some of its usage is under way; a month closed by force keeps a note of that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import advance_head, lock_heads, write
from billing.closing.period_commitments import ZONES_APART_MS, commitments_in, first_owed_ms
from billing.closing.period_gaps import PeriodGaps, gaps_text, how_to_close_gaps, period_gaps
from billing.ledger.proofs import charge_proof
from billing.ledger.rows import LineRow
from billing.ledger.transactions import LineKind, TxnKind, entries_of, post
from billing.periods import PeriodWindow
from billing.prices.rating import Meter
from billing.prices.true_up import CommittedInPeriod, PeriodSums, TrueUp, TrueUpKey, true_up
from billing.prices.versions import version_prices
from billing.quota.unposted_usage import UnpostedUsage
from billing.reports.period_sums import TRUE_UP, late_periods, sums_in, versions_in
from billing.tables.ledger import LedgerHead, UsageLine
from billing.tables.prices import Charge, PeriodClose
from billing.tables.tenants import Tenant
from core.clock import now_ms
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database, insert_rows


@dataclass(frozen=True)
class PeriodTrueUp:
    """A true-up, and the period that it is for: an earlier month where usage came late."""

    period: PeriodWindow
    true_up: TrueUp


@dataclass
class PeriodClosing:
    """A closed month or, with `closed_ms` None, a preview of its close. `lacks`: usage missing at the close,
    or now; None: nothing."""

    month: str
    period: PeriodWindow
    results: list[PeriodTrueUp] = field(default_factory=list[PeriodTrueUp])
    closed_ms: int | None = None
    booked_now: bool = False
    lacks: dict[str, Any] | None = None
    time_zone: str = ""

    @property
    def amount_nano(self) -> int:
        """Sum of all amounts booked with it."""
        return sum(each.true_up.difference_nano for each in self.results)


@dataclass(frozen=True)
class CloseOptions:
    """Options of a close. `found`: the tenant's usage under way in Redis. `dry_run`: change nothing, and show
    an unfinished month as it is so far; `force`: close also a month that is not whole."""

    found: UnpostedUsage
    dry_run: bool = False
    force: bool = False


class MonthNotWhole(Refused):
    """A month is not closed without force: some of its usage is under way. `lacks`: the facts of the gaps."""

    def __init__(self, month: str, gaps: PeriodGaps) -> None:
        self.lacks = gaps.facts()
        super().__init__(
            Refusal(
                "bad_request",
                f"{month} is not whole: {gaps_text(self.lacks)}. What to do: {how_to_close_gaps(gaps)}. "
                "--force closes it without them, which it says for good: they go to the next month",
            )
        )


async def close_period(
    db: Database, tenant: Tenant, month: str, window: PeriodWindow, asked: CloseOptions
) -> PeriodClosing:
    """Close a month, `window` in the tenant's zone. A closed one is returned unchanged.

    Raises Refused for a month that is not over, not the next, or not whole."""
    now = now_ms()
    if asked.dry_run:
        async with db.snapshot() as session:
            return await _closing(session, tenant.tenant_id, month, window, asked.found)
    if window.end_ms > now:
        raise bad_request(f"{month} is not over in the tenant's time zone: see it so far with --dry-run")
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant.tenant_id]))[tenant.tenant_id]
        closing = await _closing(session, tenant.tenant_id, month, window, asked.found, asked.force)
        if closing.closed_ms is None:
            closing.closed_ms, closing.booked_now = now, True
            closing.time_zone = tenant.time_zone
            await _book(session, head, closing, now)
        return closing


async def _closing(
    session: AsyncSession,
    tenant_id: str,
    month: str,
    window: PeriodWindow,
    found: UnpostedUsage,
    force: bool = True,
) -> PeriodClosing:
    closes = await closes_of(session, tenant_id)
    closed = next((each for each in closes if each.month == month), None)
    if closed is not None:
        return await _as_booked(session, closed)
    closing = PeriodClosing(month, await _next_period(session, tenant_id, closes, month, window))
    lacks = await period_gaps(session, tenant_id, closing.period, found)
    closing.lacks = lacks.facts() if lacks else None
    if closing.lacks is not None and not force:
        raise MonthNotWhole(month, lacks)
    late = await late_periods(session, tenant_id, closes, closes[-1].line_seq if closes else 0)
    for period in (*(PeriodWindow(each.start_ms, each.end_ms) for each in late), closing.period):
        _, results = await true_ups_in(session, tenant_id, period)
        closing.results += [PeriodTrueUp(period, each) for each in results]
    return closing


async def true_ups_in(
    session: AsyncSession, tenant_id: str, period: PeriodWindow, tried: Sequence[CommittedInPeriod] = ()
) -> tuple[dict[TrueUpKey, PeriodSums], list[TrueUp]]:
    """Sums of a period's lines, and its true-ups; `tried` adds trial commitments.

    Raises Refused for an amount that no book can hold."""
    versions = await version_prices(session, await versions_in(session, tenant_id, period))
    commitments = [*await commitments_in(session, tenant_id, period), *tried]
    by_model = any(each.tiers for each in versions.values()) or any(each.meter for each in commitments)
    sums = await sums_in(session, tenant_id, period, by_model)
    try:
        return sums, true_up(sums, versions if by_model else {}, commitments)
    except ValueError as error:
        raise bad_request(f"the month cannot be closed: {error}") from error


async def _next_period(
    session: AsyncSession, tenant_id: str, closes: Sequence[PeriodClose], month: str, window: PeriodWindow
) -> PeriodWindow:
    """From the end of the last closed month (its zone may have been another) to the end of this one. Raises
    Refused."""
    if closes:
        start = closes[-1].end_ms
        if window.end_ms <= start:
            last = closes[-1].month
            raise bad_request(f"{month} lies before the months that were closed: the last is {last}")
    else:
        first = select(func.min(UsageLine.ended_ms)).where(col(UsageLine.tenant_id) == tenant_id)
        used, owed = (await session.exec(first)).one(), await first_owed_ms(session, tenant_id)
        start = min(each for each in (window.start_ms, used, owed) if each is not None)
    if window.start_ms - start > ZONES_APART_MS:
        raise bad_request(
            "an earlier month is open: months are closed one after the other, the first one first"
        )
    return PeriodWindow(start, window.end_ms)


async def _book(session: AsyncSession, head: LedgerHead, closing: PeriodClosing, now: int) -> None:
    charges, lines = _rows(closing, head, now)
    await insert_rows(session, charges)
    if lines:
        charged: dict[tuple[str, str, str], int] = {}
        for line in lines:
            charged[line.meter, "", ""] = charged.get((line.meter, "", ""), 0) + line.amount_nano
        name = f"true_up:{closing.period.start_ms}"
        posting = post(head, TxnKind.TRUE_UP, name, lines, entries_of(charged), now)
        await write(session, [posting], charges)
        head = posting.head
    session.add(
        PeriodClose(
            tenant_id=head.tenant_id,
            start_ms=closing.period.start_ms,
            end_ms=closing.period.end_ms,
            month=closing.month,
            line_seq=head.line_seq,
            amount_nano=closing.amount_nano,
            closed_ms=now,
            lacks=closing.lacks,
            time_zone=closing.time_zone,
        )
    )
    head.closed_ms = closing.period.end_ms
    await advance_head(session, head)
    await session.flush()
    says = {"amount_nano": closing.amount_nano, "time_zone": closing.time_zone, "lacks": closing.lacks}
    await record(session, head.tenant_id, "period.close", closing.month, None, says)


def _rows(closing: PeriodClosing, head: LedgerHead, now: int) -> tuple[list[Charge], list[LineRow]]:
    """A charge for each period and model, with its lines, which count at the end of the closed month.
    Pure."""
    charges: dict[str, Charge] = {}
    numbers: dict[str, int] = {}
    lines: list[LineRow] = []
    for each in closing.results:
        key, amount = each.true_up.key, each.true_up.difference_nano
        if not amount:
            continue
        id = f"true_up:{closing.period.start_ms}:{each.period.start_ms}:{key.model}"
        charges[id] = _charge(id, head.tenant_id, each, now)
        numbers[id] = numbers.get(id, 0) + 1
        lines.append(
            LineRow(
                tenant_id=head.tenant_id,
                seq=head.line_seq + len(lines) + 1,
                request_id=id,
                number=numbers[id],
                kind=LineKind.TRUE_UP.value,
                meter=key.meter.value,
                quantity=0,
                price_nano=0,
                amount_nano=amount,
                price_book_id=key.book,
                price_version=key.version,
                cost_center_id="",
                adjusts_seq=None,
                ended_ms=closing.period.end_ms - 1,
                posted_ms=now,
                proof=charge_proof(charges[id]),
            )
        )
    return list(charges.values()), lines


def _charge(id: str, tenant_id: str, each: PeriodTrueUp, now: int) -> Charge:
    return Charge(
        tenant_id=tenant_id,
        id=id,
        kind=TRUE_UP,
        model=each.true_up.key.model,
        start_ms=each.period.start_ms,
        end_ms=each.period.end_ms,
        created_ms=now,
    )


async def closes_of(session: AsyncSession, tenant_id: str) -> Sequence[PeriodClose]:
    """A tenant's closed months, first one first."""
    statement = select(PeriodClose).where(col(PeriodClose.tenant_id) == tenant_id)
    return (await session.exec(statement.order_by(col(PeriodClose.start_ms)))).all()


async def closing_gaps_of(db: Database, tenant_id: str, window: PeriodWindow) -> str:
    """Text on usage missing at a month's close; empty where nothing lacks, or the month is open."""
    async with db.session() as session:
        closes = await closes_of(session, tenant_id)
    lacks = next((each.lacks for each in closes if PeriodWindow(each.start_ms, each.end_ms) == window), None)
    return gaps_text(lacks) if lacks else ""


async def _as_booked(session: AsyncSession, close: PeriodClose) -> PeriodClosing:
    """Read the amounts that a close booked."""
    named = f"true_up:{close.start_ms}:"
    statement = (
        select(UsageLine, Charge)
        .where(col(UsageLine.tenant_id) == close.tenant_id, col(Charge.tenant_id) == close.tenant_id)
        .where(col(UsageLine.request_id) == col(Charge.id), col(Charge.id).startswith(named, autoescape=True))
        .order_by(col(UsageLine.seq))
    )
    closing = PeriodClosing(
        close.month, PeriodWindow(close.start_ms, close.end_ms), closed_ms=close.closed_ms
    )
    closing.lacks = close.lacks
    for line, charge in (await session.exec(statement)).all():
        key = TrueUpKey(charge.model, Meter(line.meter), line.price_book_id, line.price_version)
        each = TrueUp(key, 0, 0, line.amount_nano, "booked")
        closing.results.append(PeriodTrueUp(PeriodWindow(charge.start_ms, charge.end_ms), each))
    return closing
