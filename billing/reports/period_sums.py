"""Sums a tenant's lines of a period for true-ups: by model, meter and price version. Reads only.

The period here is the one in which a request ended, or for which a charge was made: a late line counts in a
later month (`UsageLine.ended_ms`), but is trued up with its own month.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import literal, select
from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import HOUR_MS, PeriodWindow
from billing.prices.rating import Meter
from billing.prices.true_up import PeriodSums, TrueUpKey
from billing.tables.ledger import UsageLine
from billing.tables.prices import Charge, PeriodClose
from billing.tables.tenants import UsageRow
from core.sql.selects import select_columns, untyped

TRUE_UP = "true_up"  # the kind of a Charge
OF_POOLS = (Meter.GPU_SECOND.value, Meter.RESERVED_GPU_SECOND.value)


async def sums_in(
    session: AsyncSession, tenant_id: str, period: PeriodWindow, by_model: bool
) -> dict[TrueUpKey, PeriodSums]:
    """Sum all lines of a period. `by_model` False: all models as one, without reading requests."""
    found: dict[TrueUpKey, PeriodSums] = {}
    rows = [
        *await _of_requests(session, tenant_id, period, by_model),
        *await _of_pools(session, tenant_id, period),
        *await _of_true_ups(session, tenant_id, period),
    ]
    for flat, model, meter, book, version, quantity, amount in rows:
        key = TrueUpKey(model, Meter(meter), book, version)
        each = PeriodSums(int(quantity), int(amount) if flat else 0, int(amount))
        found[key] = found.get(key, PeriodSums()) + each
    return found


_OF_LINE = (UsageLine.meter, UsageLine.price_book_id, UsageLine.price_version)


async def _of_requests(
    session: AsyncSession, tenant_id: str, period: PeriodWindow, by_model: bool
) -> list[Any]:
    model: Any = UsageRow.model if by_model else literal("")
    group: list[Any] = [model, *_OF_LINE] if by_model else [*_OF_LINE]
    statement = select_columns(literal(True), model, *_OF_LINE, *_sums()).select_from(UsageLine)
    statement = statement.join(UsageRow, _OF_REQUEST).where(
        col(UsageLine.tenant_id) == tenant_id, *_requests_of(tenant_id, period)
    )
    return list((await untyped(session).exec(statement.group_by(*group))).all())


async def _of_pools(session: AsyncSession, tenant_id: str, period: PeriodWindow) -> list[Any]:
    """Sums of dedicated pools and of commitments to GPUs."""
    return await _of_charges(session, tenant_id, True, _hours_of(period))


async def _of_true_ups(session: AsyncSession, tenant_id: str, period: PeriodWindow) -> list[Any]:
    """Sums that earlier true-ups booked for the period, at any time."""
    where = (col(Charge.kind) == TRUE_UP, col(Charge.start_ms) == period.start_ms)
    return await _of_charges(session, tenant_id, False, where)


async def _of_charges(session: AsyncSession, tenant_id: str, flat: bool, where: Iterable[Any]) -> list[Any]:
    statement = (
        select_columns(literal(flat), Charge.model, *_OF_LINE, *_sums())
        .select_from(UsageLine)
        .join(Charge, _OF_CHARGE)
        .where(col(UsageLine.tenant_id) == tenant_id, *where)
        .group_by(Charge.model, *_OF_LINE)
    )
    return list((await untyped(session).exec(statement)).all())


def _sums() -> tuple[Any, Any]:
    return func.sum(UsageLine.quantity), func.sum(UsageLine.amount_nano)


_OF_REQUEST: Any = (col(UsageRow.tenant_id) == col(UsageLine.tenant_id)) & (
    col(UsageRow.request_id) == col(UsageLine.request_id)
)
_OF_CHARGE: Any = (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (
    col(Charge.id) == col(UsageLine.request_id)
)


def _requests_of(tenant_id: str, period: PeriodWindow) -> tuple[Any, ...]:
    """Conditions for requests that ended in a period, in whichever month their lines count."""
    ended = col(UsageRow.ended_ms)
    return col(UsageRow.tenant_id) == tenant_id, ended >= period.start_ms, ended < period.end_ms


def _hours_of(period: PeriodWindow) -> tuple[Any, ...]:
    """Conditions for charges of hours that ended in a period."""
    ended = col(Charge.end_ms) - 1
    return col(Charge.kind) != TRUE_UP, ended >= period.start_ms, ended < period.end_ms


async def versions_in(session: AsyncSession, tenant_id: str, period: PeriodWindow) -> set[tuple[str, int]]:
    """The price versions (book, number) of what a period's requests used."""
    statement = (
        select(col(UsageLine.price_book_id), col(UsageLine.price_version))
        .select_from(UsageLine)
        .join(UsageRow, _OF_REQUEST)
        .where(col(UsageLine.tenant_id) == tenant_id, *_requests_of(tenant_id, period))
        .distinct()
    )
    return {
        (book, number)
        for book, number in (await (await session.connection()).execute(statement)).all()
        if book
    }


async def late_periods(
    session: AsyncSession, tenant_id: str, closes: Iterable[PeriodClose], line_seq: int
) -> list[PeriodClose]:
    """The closed periods to which lines after `line_seq` belong, that is, lines that came after the close."""
    ordered = sorted(closes, key=lambda close: close.start_ms)
    if not ordered:
        return []
    closed = PeriodWindow(ordered[0].start_ms, ordered[-1].end_ms)
    hours: set[int] = set()
    for ended, table, same, where in (
        (col(UsageRow.ended_ms), UsageRow, _OF_REQUEST, _requests_of(tenant_id, closed)),
        (col(Charge.end_ms) - 1, Charge, _OF_CHARGE, _hours_of(closed)),
    ):
        hour: Any = ended - ended % HOUR_MS
        statement: Any = select(hour).select_from(UsageLine).join(table, same)
        statement = statement.where(col(UsageLine.tenant_id) == tenant_id, col(UsageLine.seq) > line_seq)
        found = (await (await session.connection()).execute(statement.where(*where).distinct())).all()
        hours |= {int(row[0]) for row in found}
    return [
        close
        for close in ordered
        if any(start < close.end_ms and close.start_ms < start + HOUR_MS for start in hours)
    ]
