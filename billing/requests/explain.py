"""Explains a request's bill: its lines, the prices in force, the payers, and corrections.

Reads the books of one tenant in one snapshot, and none of its content: no labels, no texts.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.grant_rows import uses_of
from billing.ledger.transactions import LineKind, TxnKind
from billing.periods import UTC_ZONE, Calendar, month_text
from billing.prices.book import ANY_MODEL
from billing.prices.calendars import calendar_in
from billing.prices.versions import number_at
from billing.tables.ledger import LedgerTxn, UsageLine
from billing.tables.prices import PeriodClose, PriceTier
from billing.tables.tenants import Price, PriceBook, PriceVersion, Tenant, UsageQuarantine, UsageRow
from billing.tables.wallets import Wallet, WalletGrant
from billing.tenants.users import user_names
from billing.usage import RequestPhase
from core.operations import MoneyAmount
from core.sql.database import Database

HEX_END = "g"  # behind all hex digits
TENANTS_MAX = 10
HELD_BACK_MAX = 100


class RequestMoment(msgspec.Struct, frozen=True):
    """A moment in a request's life. `after_ms`: time since the moment before."""

    name: str
    at_ms: int
    after_ms: int


class BookedLine(msgspec.Struct, frozen=True):
    """A line of the books. `line`: its seq in the tenant's books; `price`: of a million units; `adjusts`: seq
    of the line that it corrects; `cause`: idempotency key of its transaction."""

    line: int
    kind: str
    meter: str
    quantity: int
    price: MoneyAmount
    amount: MoneyAmount
    adjusts: int | None
    cause: str
    counts_ms: int
    posted_ms: int


class BilledMonth(msgspec.Struct, frozen=True):
    """A month in which lines of the request count, and their sum. Lines booked after their month was closed
    count in the first open one."""

    month: str
    amount: MoneyAmount
    closed_ms: int | None


class PriceInForce(msgspec.Struct, frozen=True):
    """The version that priced the request. `until_ms`: start of the next version, None where there is none;
    `why`: a sentence; `tiers`: meters that are priced by tiers at the close of the month, with their mode."""

    book: str
    book_name: str
    version: int
    model: str
    from_ms: int | None
    until_ms: int | None
    why: str
    tiers: dict[str, str]


class PaidBy(msgspec.Struct, frozen=True):
    """Sum that a grant paid of the request so far, corrections included."""

    grant: str
    kind: str
    amount: MoneyAmount


class HeldBack(msgspec.Struct, frozen=True):
    """A quarantined event of the request. `resolution` empty: not decided yet."""

    event_sha256: str
    reason: str
    detail: str
    since_ms: int
    resolution: str


class BookedRequest(msgspec.Struct, frozen=True):
    """Everything in the books about one request. `cost` was billed at its end, `amount` is the sum of its
    lines by now; `owed`: the part of it that no grant paid; None: the tenant is not prepaid.
    `policy`: hash of the safety policy of its answer; `verdicts`: that policy's, by category and action;
    `phases`: of its life, in order."""

    project: str
    key: str
    user: str
    user_id: str
    model: str
    pool: str
    reason: str
    code: str
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    claims: int
    recomputed_tokens: int
    cost: MoneyAmount
    amount: MoneyAmount
    currency: str
    lines: list[BookedLine]
    price: PriceInForce
    paid: list[PaidBy]
    owed: MoneyAmount | None
    months: list[BilledMonth]
    steps: list[RequestMoment]
    priority: str = ""
    trace_id: str = ""
    policy: str = ""
    verdicts: dict[str, dict[str, int]] = {}
    phases: list[RequestPhase] = []


async def tenants_with(db: Database, request_id: str) -> Sequence[str]:
    """Tenants that were billed for a request of this id (senders choose ids, so several can be). For
    operators."""
    statement = (
        select(Tenant.tenant_id)
        .join(UsageRow, col(UsageRow.tenant_id) == col(Tenant.tenant_id))
        .where(col(UsageRow.request_id) == request_id)
        .order_by(col(Tenant.tenant_id))
        .limit(TENANTS_MAX)
    )
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def requests_shortened(db: Database, begin: str, end: str) -> Sequence[tuple[str, str]]:
    """Tenants and ids of billed requests whose id, of hex digits, begins and ends so. For operators."""
    id = col(UsageRow.request_id)
    statement = (
        select(Tenant.tenant_id, id)
        .join(UsageRow, col(UsageRow.tenant_id) == col(Tenant.tenant_id))
        .where(id.between(begin, f"{begin}{HEX_END}"), id.endswith(end, autoescape=True))
        .order_by(id, col(Tenant.tenant_id))
        .limit(TENANTS_MAX)
    )
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def booked_of(db: Database, tenant_id: str, request_id: str) -> BookedRequest | None:
    """Read a request and its bill from the books; None where it was not billed."""
    async with db.snapshot() as session:
        row = await session.get(UsageRow, (tenant_id, request_id))
        if row is None:
            return None
        lines = await _lines(session, row)
        uses = await uses_of(session, tenant_id, request_id)
        paid = [await _paid_by(session, tenant_id, id, nano) for id, nano in uses.items()]
        prepaid = await session.get(Wallet, tenant_id) is not None
        price = await _price(session, row)
        months = await _months(session, tenant_id, lines)
    amount_nano = sum(line.amount.value for line in lines)
    names = await user_names(db, tenant_id, [row.user_id])
    return BookedRequest(
        project=row.project_id,
        key=row.key_id,
        user=names.get(row.user_id, row.user_id),
        user_id=row.user_id,
        model=row.model,
        pool=row.pool,
        reason=row.reason,
        code=row.code,
        input_uncached=row.input_uncached,
        input_cached=row.input_cached,
        output_text=row.output_text,
        output_reasoning=row.output_reasoning,
        claims=row.claims,
        recomputed_tokens=row.recomputed_tokens,
        cost=MoneyAmount.of(row.cost_nano),
        amount=MoneyAmount.of(amount_nano),
        currency=row.currency,
        lines=lines,
        price=price,
        paid=paid,
        owed=MoneyAmount.of(amount_nano - sum(uses.values())) if prepaid else None,
        months=months,
        steps=steps_of(row, lines),
        priority=row.priority_class,
        trace_id=row.trace_id,
        policy=row.policy_sha256,
        verdicts=row.safety_verdicts,
        phases=[RequestPhase(*phase) for phase in row.phases],
    )


async def held_back_of(db: Database, tenant_id: str, request_id: str) -> list[HeldBack]:
    """The request's quarantined events, oldest first."""
    statement = (
        select(UsageQuarantine)
        .where(col(UsageQuarantine.tenant_id) == tenant_id, col(UsageQuarantine.request_id) == request_id)
        .order_by(col(UsageQuarantine.created_ms))
        .limit(HELD_BACK_MAX)
    )
    async with db.session() as session:
        found = (await session.exec(statement)).all()
    return [
        HeldBack(
            each.event_sha256,
            each.reason,
            each.detail,
            each.created_ms,
            each.resolution if each.resolved_ms is not None else "",
        )
        for each in found
    ]


def steps_of(row: Any, lines: Sequence[BookedLine]) -> list[RequestMoment]:
    """The request's moments so far, in order. Pure.

    They are read from clocks of several processes, and a database may have booked it by a clock behind: a
    moment is never before the one that led to it."""
    times = [
        ("accepted", row.accepted_ms),
        ("claimed", row.claimed_ms),
        ("first token", row.first_token_ms),
        ("ended", row.ended_ms),
        ("booked", row.posted_ms),
    ]
    corrected = {line.posted_ms for line in lines if line.kind != LineKind.USAGE.value}
    times += [("corrected", at) for at in sorted(corrected)]
    steps: list[RequestMoment] = []
    for name, at in times:
        if at:
            last = steps[-1].at_ms if steps else at
            steps.append(RequestMoment(name, max(at, last), max(0, at - last)))
    return steps


def why_in_force(version: int, in_force: int | None) -> str:
    """Explain in words why a version priced a request. `in_force`: the version in force at its acceptance.
    Pure."""
    if in_force == version:
        return "of the versions that had begun when it was accepted, the last to begin"
    if in_force is None:
        return "the request carried it; the book has none that had begun when it was accepted"
    return f"it was pinned when the request was admitted; when it was accepted, {in_force} was in force"


async def _lines(session: AsyncSession, row: UsageRow) -> list[BookedLine]:
    statement = (
        select(UsageLine)
        .where(col(UsageLine.tenant_id) == row.tenant_id, col(UsageLine.request_id) == row.request_id)
        .order_by(col(UsageLine.number))
    )
    found = (await session.exec(statement)).all()
    corrected = any(line.kind != LineKind.USAGE.value for line in found)
    causes = await _causes(session, row) if corrected else []
    return [
        BookedLine(
            line=line.seq,
            kind=line.kind,
            meter=line.meter,
            quantity=line.quantity,
            price=MoneyAmount.of(line.price_nano),
            amount=MoneyAmount.of(line.amount_nano),
            adjusts=line.adjusts_seq,
            cause=next((cause for first, last, cause in causes if first <= line.seq <= last), ""),
            counts_ms=line.ended_ms,
            posted_ms=line.posted_ms,
        )
        for line in found
    ]


async def _causes(session: AsyncSession, row: UsageRow) -> list[tuple[int, int, str]]:
    """(first line, last line, cause) of each correction; the cause is the name that its maker gave."""
    named = f"adjust:{row.request_id}:"
    statement = select(LedgerTxn.first_line_seq, LedgerTxn.last_line_seq, LedgerTxn.idempotency_key).where(
        col(LedgerTxn.tenant_id) == row.tenant_id,
        col(LedgerTxn.kind) == TxnKind.ADJUST.value,
        col(LedgerTxn.idempotency_key).startswith(named, autoescape=True),
    )
    found = (await session.exec(statement)).all()
    return [(first, last, key.removeprefix(named)) for first, last, key in found]


async def _paid_by(session: AsyncSession, tenant_id: str, grant_id: str, nano: int) -> PaidBy:
    grant = await session.get(WalletGrant, (tenant_id, grant_id))
    return PaidBy(grant_id, grant.kind if grant is not None else "", MoneyAmount.of(nano))


async def _price(session: AsyncSession, row: UsageRow) -> PriceInForce:
    book = await session.get(PriceBook, row.price_book_id)
    version = await session.get(PriceVersion, (row.price_book_id, row.price_version))
    if book is None or version is None:
        why = "the request carried these prices; the book has no such version"
        return PriceInForce(row.price_book_id, "", row.price_version, "", None, None, why, {})
    at = number_at(book.id, book.tenant_id, row.accepted_ms)
    in_force = (await session.exec(select(at))).one()
    following = select(func.min(PriceVersion.valid_from_ms)).where(
        col(PriceVersion.book_id) == book.id,
        col(PriceVersion.valid_from_ms) > version.valid_from_ms,
        col(PriceVersion.withdrawn_ms).is_(None),
    )
    of = (col(Price.book_id) == book.id, col(Price.version) == version.version)
    asked = col(Price.model).in_((row.model, ANY_MODEL))
    found = select(Price.model).where(*of, asked).order_by(col(Price.model) == ANY_MODEL)
    model = (await session.exec(found.limit(1))).first() or ""
    tiers = select(PriceTier).where(
        col(PriceTier.book_id) == book.id,
        col(PriceTier.version) == version.version,
        col(PriceTier.model) == model,
    )
    return PriceInForce(
        book=book.id,
        book_name=book.name,
        version=version.version,
        model=model,
        from_ms=version.valid_from_ms,
        until_ms=(await session.exec(following)).one(),
        why=why_in_force(version.version, in_force),
        tiers={each.meter: each.mode for each in (await session.exec(tiers)).all()},
    )


async def _months(session: AsyncSession, tenant_id: str, lines: Sequence[BookedLine]) -> list[BilledMonth]:
    """Months in which its lines count, in order, with the time of their close."""
    tenant = await session.get(Tenant, tenant_id)
    calendar = await calendar_in(session, tenant) if tenant is not None else Calendar(UTC_ZONE)
    found: dict[str, BilledMonth] = {}
    for line in sorted(lines, key=lambda line: line.counts_ms):
        close = await _close_of(session, tenant_id, line.counts_ms)
        month = close.month if close is not None else month_text(calendar.month_at(line.counts_ms))
        before_nano = found[month].amount.value if month in found else 0
        closed_ms = close.closed_ms if close is not None else None
        found[month] = BilledMonth(month, MoneyAmount.of(before_nano + line.amount.value), closed_ms)
    return list(found.values())


async def _close_of(session: AsyncSession, tenant_id: str, at_ms: int) -> PeriodClose | None:
    closes = select(PeriodClose).where(
        col(PeriodClose.tenant_id) == tenant_id,
        col(PeriodClose.start_ms) <= at_ms,
        col(PeriodClose.end_ms) > at_ms,
    )
    return (await session.exec(closes.limit(1))).first()
