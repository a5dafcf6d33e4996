"""What a tenant's lines say of a period, as true-ups need it: sums by model, meter and price version. Reads
only.

A line counts in the period in which its request ended; a true-up's in the period that it is for.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import literal, select
from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.books.ledger import LineKind
from billing.books.ledger_tables import UsageLine
from billing.periods import HOUR_MS, Window
from billing.prices.price_tables import Charge, PeriodClose
from billing.prices.rating import Meter
from billing.prices.true_up import Key, Sums
from billing.tables import UsageRow

TRUE_UP = "true_up"  # the kind of a Charge
OF_POOLS = (Meter.GPU_SECOND.value, Meter.RESERVED_GPU_SECOND.value)


async def sums_in(session: AsyncSession, tenant_id: str, period: Window, by_model: bool) -> dict[Key, Sums]:
    """All that the lines of a period say. Not `by_model`: all models as one, without a look at requests."""
    found: dict[Key, Sums] = {}
    rows = [
        *await _of_requests(session, tenant_id, period, by_model),
        *await _of_pools(session, tenant_id, period),
        *await _of_true_ups(session, tenant_id, period),
    ]
    for flat, model, meter, book, version, quantity, amount in rows:
        key = Key(model, Meter(meter), book, version)
        each = Sums(int(quantity), int(amount) if flat else 0, int(amount))
        found[key] = found.get(key, Sums()) + each
    return found


_OF_LINE = (UsageLine.meter, UsageLine.price_book_id, UsageLine.price_version)


async def _of_requests(session: AsyncSession, tenant_id: str, period: Window, by_model: bool) -> list[Any]:
    model: Any = UsageRow.model if by_model else literal("")
    group: list[Any] = [model, *_OF_LINE] if by_model else [*_OF_LINE]
    statement: Any = select(literal(True), model, *_OF_LINE, *_sums()).select_from(UsageLine)  # type: ignore[call-overload]
    if by_model:
        same = (col(UsageRow.tenant_id) == col(UsageLine.tenant_id)) & (
            col(UsageRow.request_id) == col(UsageLine.request_id)
        )
        statement = statement.join(UsageRow, same)
    statement = statement.where(
        col(UsageLine.tenant_id) == tenant_id,
        *_ended_in(period),
        col(UsageLine.kind) != LineKind.TRUE_UP.value,
    )
    return list((await (await session.connection()).execute(statement.group_by(*group))).all())


async def _of_pools(session: AsyncSession, tenant_id: str, period: Window) -> list[Any]:
    """What dedicated pools and commitments to GPUs cost."""
    return await _of_charges(session, tenant_id, True, (col(Charge.kind) != TRUE_UP, *_ended_in(period)))


async def _of_true_ups(session: AsyncSession, tenant_id: str, period: Window) -> list[Any]:
    """What earlier true-ups booked for the period, whenever that was."""
    where = (col(Charge.kind) == TRUE_UP, col(Charge.start_ms) == period.start_ms)
    return await _of_charges(session, tenant_id, False, where)


async def _of_charges(session: AsyncSession, tenant_id: str, flat: bool, where: Iterable[Any]) -> list[Any]:
    same = (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (col(Charge.id) == col(UsageLine.request_id))
    statement: Any = (
        select(literal(flat), Charge.model, *_OF_LINE, *_sums())  # type: ignore[call-overload]
        .select_from(UsageLine)
        .join(Charge, same)
        .where(col(UsageLine.tenant_id) == tenant_id, *where)
        .group_by(Charge.model, *_OF_LINE)
    )
    return list((await (await session.connection()).execute(statement)).all())


def _sums() -> tuple[Any, Any]:
    return func.sum(UsageLine.quantity), func.sum(UsageLine.amount_nano)


def _ended_in(period: Window) -> tuple[Any, Any]:
    return col(UsageLine.ended_ms) >= period.start_ms, col(UsageLine.ended_ms) < period.end_ms


async def versions_in(session: AsyncSession, tenant_id: str, period: Window) -> set[tuple[str, int]]:
    """The price versions (book, number) of a period's lines."""
    statement = (
        select(col(UsageLine.price_book_id), col(UsageLine.price_version))
        .where(col(UsageLine.tenant_id) == tenant_id, *_ended_in(period))
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
    """Of closed periods those that lines after `line_seq` belong to, which came after they were closed."""
    ordered = sorted(closes, key=lambda close: close.start_ms)
    if not ordered:
        return []
    hour: Any = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS
    of_period = (col(UsageLine.kind) != LineKind.TRUE_UP.value) | col(UsageLine.meter).in_(OF_POOLS)
    statement = (
        select(hour)
        .where(col(UsageLine.tenant_id) == tenant_id, col(UsageLine.seq) > line_seq)
        .where(col(UsageLine.ended_ms) < ordered[-1].end_ms, of_period)
        .distinct()
    )
    hours = [int(row[0]) for row in (await (await session.connection()).execute(statement)).all()]
    return [
        close
        for close in ordered
        if any(start < close.end_ms and close.start_ms < start + HOUR_MS for start in hours)
    ]
