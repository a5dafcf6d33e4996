"""Tenants' monthly commitments: an amount to spend, or units of a meter.

A commitment begins with the running month or later. It ends with notice, or is taken back within a day as a
mistake."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import lock_heads
from billing.periods import AHEAD_MS_MAX, HOUR_MS, Calendar, PeriodWindow
from billing.prices.calendars import calendar_in
from billing.prices.price_file_tiers import PRICE_NANO_MAX, TIERED
from billing.prices.rating import Meter
from billing.prices.tiers import QUANTITY_MAX
from billing.prices.true_up import CommittedInPeriod
from billing.tables.prices import PeriodClose, PeriodCommitment
from billing.tables.tenants import PriceBook, Tenant
from core.clock import now_ms
from core.errors import bad_request
from core.ids import uuid7
from core.names import checked_name
from core.sql.database import Database

OPEN_MAX = 100
NOTICE_MONTHS = 1
NOTICE_MONTHS_MAX = 24
MISTAKE_MS_MAX = 24 * HOUR_MS
ZONES_APART_MS = 48 * HOUR_MS  # more than the difference of any two zones, and so of a month's ends
CURRENCY = "usd"


@dataclass(frozen=True)
class NewCommitment:
    """A commitment to make, for whole months of `months`. `far_ahead`: it may begin in years."""

    terms: CommittedInPeriod
    months: PeriodWindow
    notice_months: int = NOTICE_MONTHS
    far_ahead: bool = False


async def commitments_in(
    session: AsyncSession, tenant_id: str, period: PeriodWindow
) -> list[CommittedInPeriod]:
    """Commitments in force in the middle of a period, and so in all of it: they begin and end with months."""
    middle = (period.start_ms + period.end_ms) // 2
    statement = select(PeriodCommitment).where(
        col(PeriodCommitment.tenant_id) == tenant_id,
        col(PeriodCommitment.start_ms) <= middle,
        col(PeriodCommitment.end_ms) > middle,
        or_(col(PeriodCommitment.ends_ms).is_(None), col(PeriodCommitment.ends_ms) > middle),
    )
    return [as_committed(row) for row in (await session.exec(statement)).all()]


def as_committed(row: PeriodCommitment) -> CommittedInPeriod:
    """The row in the form of true-ups. Pure."""
    meter = Meter(row.meter) if row.meter else None
    return CommittedInPeriod(row.committed_nano, row.model, meter, row.units, row.overage_nano)


def until_ms(row: PeriodCommitment) -> int:
    """End of the time in force: as agreed, or as it was ended; its start where it was never in force.
    Pure."""
    return row.end_ms if row.ends_ms is None else min(row.end_ms, row.ends_ms)


async def commit(
    db: Database, tenant: Tenant, new: NewCommitment, dry_run: bool = False, now: int | None = None
) -> PeriodCommitment:
    """Add a commitment. A dry run only checks it.

    Raises Refused where it is not possible: amounts out of bounds, a month that is over, another for the
    same."""
    now = now_ms() if now is None else now
    terms = new.terms
    _check(terms)
    async with db.transaction() as session:
        await lock_heads(session, [tenant.tenant_id])  # others are made, and months closed, before or after
        _check_time(await calendar_in(session, tenant), new, now)
        await _check_others(session, tenant.tenant_id, new, now)
        row = PeriodCommitment(
            tenant_id=tenant.tenant_id,
            id=uuid7(now),
            model=terms.model,
            meter=terms.meter.value if terms.meter else "",
            units=terms.units,
            committed_nano=terms.committed_nano,
            overage_nano=terms.overage_nano,
            start_ms=new.months.start_ms,
            end_ms=new.months.end_ms,
            created_ms=now,
            notice_months=new.notice_months,
        )
        if not dry_run:
            session.add(row)
            await session.flush()
            await record(session, tenant.tenant_id, "commitment.create", row.id, None, row)
    return row


def _check(committed: CommittedInPeriod) -> None:
    if not 0 < committed.committed_nano <= PRICE_NANO_MAX:
        raise bad_request("an amount to commit to is above zero and at most 9,000,000 USD")
    if committed.overage_nano is not None and not 0 <= committed.overage_nano <= PRICE_NANO_MAX:
        raise bad_request("an overage price is from zero to 9,000,000 USD")
    if committed.meter is None:
        if committed.model or committed.units or committed.overage_nano is not None:
            raise bad_request("a model, units and an overage price belong to a meter: name it")
        return
    if committed.meter not in TIERED:
        raise bad_request(f"units are of {', '.join(TIERED)} (output counts reasoning too)")
    if not committed.model or not 0 < committed.units < QUANTITY_MAX:
        raise bad_request("a commitment to units names a model (`*`: any) and how many, at least 1")


def _check_time(calendar: Calendar, new: NewCommitment, now: int) -> None:
    if new.months.start_ms < calendar.window(calendar.month_at(now)).start_ms:
        raise bad_request(
            "a commitment begins with the running month or later: what is over is not billed anew"
        )
    if new.months.start_ms - now > AHEAD_MS_MAX and not new.far_ahead:
        raise bad_request("the first month is more than 13 months ahead: say --yes if it is meant")
    if not 0 <= new.notice_months <= NOTICE_MONTHS_MAX:
        raise bad_request(f"a notice is of 0 to {NOTICE_MONTHS_MAX} months")


async def check_currency(session: AsyncSession, tenant_id: str) -> None:
    """Raises Refused where the tenant's currency differs from that of commitments."""
    owner = await session.get(Tenant, tenant_id)
    book = await session.get(PriceBook, owner.price_book_id) if owner else None
    if book is not None and book.currency != CURRENCY:
        raise bad_request(f"the tenant's prices are in {book.currency.upper()}, and commitments are in USD")


async def _check_others(session: AsyncSession, tenant_id: str, new: NewCommitment, now: int) -> None:
    """Check the commitment against the tenant's currency, closed months and other commitments. Raises
    Refused."""
    await check_currency(session, tenant_id)
    rows = await list_commitments_of(session, tenant_id)
    if sum(until_ms(row) > now for row in rows) >= OPEN_MAX:
        raise bad_request(f"a tenant has at most {OPEN_MAX} commitments")
    closed = select(PeriodClose.end_ms).where(col(PeriodClose.tenant_id) == tenant_id)
    if any(end > new.months.start_ms for end in (await session.exec(closed)).all()):
        raise bad_request("the first month is closed: a commitment begins with an open one")
    meter = new.terms.meter.value if new.terms.meter else ""
    for row in rows:
        ends, begins = until_ms(row) - ZONES_APART_MS, row.start_ms + ZONES_APART_MS
        apart = ends <= max(new.months.start_ms, row.start_ms) or new.months.end_ms <= begins
        if (row.model, row.meter) == (new.terms.model, meter) and not apart:
            raise bad_request(f"the commitment {row.id} is for the same in a part of that time")


async def end_commitment(
    db: Database,
    tenant: Tenant,
    commitment_id: str,
    reason: str,
    mistake: bool = False,
    dry_run: bool = False,
) -> tuple[PeriodCommitment, int]:
    """End a commitment after its notice, counted from the end of the running month. `mistake`: as if never
    made, within a day of making it. A dry run changes nothing. Returns it, and its earlier end.

    Raises Refused where there is no such commitment, or it ends by then in any case."""
    now = now_ms()
    says = checked_name("reason", reason)
    async with db.transaction() as session:
        await lock_heads(session, [tenant.tenant_id])  # so that no month is closed meanwhile
        row = await session.get(PeriodCommitment, (tenant.tenant_id, commitment_id))
        if row is None:
            known = f"see `parley prices commitments --tenant {tenant.tenant_id}`"
            raise bad_request(f"there is no commitment {commitment_id!r}: {known}")
        before, held_until = row.model_dump(), until_ms(row)
        calendar = await calendar_in(session, tenant)
        ends = await _taken_back(session, row, now) if mistake else _after_notice(calendar, row, now)
        if ends >= held_until - ZONES_APART_MS:
            raise bad_request(f"the commitment {commitment_id} ends by then, or has ended")
        row.ends_ms = ends
        if dry_run:
            session.expunge(row)
        else:
            after = row.model_dump() | {"reason": says}
            await record(session, tenant.tenant_id, "commitment.end", row.id, before, after)
    return row, held_until


def _after_notice(calendar: Calendar, row: PeriodCommitment, now: int) -> int:
    ends = calendar.window(calendar.month_at(now) + row.notice_months).end_ms
    return max(ends, row.start_ms)


async def _taken_back(session: AsyncSession, row: PeriodCommitment, now: int) -> int:
    closed = select(PeriodClose.end_ms).where(col(PeriodClose.tenant_id) == row.tenant_id)
    billed = any(end > row.start_ms for end in (await session.exec(closed)).all())
    if billed or now - row.created_ms > MISTAKE_MS_MAX:
        raise bad_request("a mistake is taken back within a day, before its first month is closed: end it")
    return row.start_ms


async def first_owed_ms(session: AsyncSession, tenant_id: str) -> int | None:
    """Start of the first month that may be owed without usage. A commitment that begins before it was made
    (earlier releases allowed that) is owed from the month of its making."""
    tenant = await session.get(Tenant, tenant_id)
    calendar = await calendar_in(session, tenant) if tenant is not None else None
    found: list[int] = []
    for row in await list_commitments_of(session, tenant_id):
        start = row.start_ms
        if calendar is not None and row.created_ms > start:
            start = max(start, calendar.window(calendar.month_at(row.created_ms)).start_ms)
        if until_ms(row) > start:
            found.append(start)
    return min(found, default=None)


async def list_commitments_of(session: AsyncSession, tenant_id: str) -> Sequence[PeriodCommitment]:
    """A tenant's commitments, oldest first."""
    statement = select(PeriodCommitment).where(col(PeriodCommitment.tenant_id) == tenant_id)
    order = (col(PeriodCommitment.start_ms), col(PeriodCommitment.id))
    return (await session.exec(statement.order_by(*order))).all()
