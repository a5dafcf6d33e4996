"""Sums of what a tenant's lines say of a window by model, meter, kind and price version. Reads only.

Whole hours come from `rollup_price`; the edges of a window (in zones of half hours), and lines that a rebuild
of the rollups has not added yet, come from the lines, so that the sums are exact.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlmodel import col, func

from billing.ledger.transactions import LineKind
from billing.periods import HOUR_MS, PeriodWindow
from billing.reports.usage_report import edges_of, inner_hours, of_owner, with_owners
from billing.tables.ledger import LedgerHead, RollupPrice, UsageLine
from core.sql.database import Database


class PricedSums(NamedTuple):
    """Sums of lines that are alike. `book`, `version`: what priced them."""

    model: str
    meter: str
    kind: str
    book: str
    version: int
    quantity: int
    amount_nano: int


class HourlyCorrection(NamedTuple):
    """What corrections of a model came to in an hour of UTC's, or at an edge of the window."""

    hour_ms: int
    model: str
    amount_nano: int


OF_HOURS: tuple[Any, ...] = (
    RollupPrice.model,
    RollupPrice.meter,
    RollupPrice.kind,
    RollupPrice.price_book_id,
    RollupPrice.price_version,
)
OF_LINES: tuple[Any, ...] = (
    of_owner("model"),
    UsageLine.meter,
    UsageLine.kind,
    UsageLine.price_book_id,
    UsageLine.price_version,
)
LINE_HOUR: Any = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS


async def priced_sums(
    db: Database, tenant_id: str, window: PeriodWindow, kind: LineKind | None = None
) -> list[PricedSums]:
    """Sums of a window's lines, of all or of one kind."""
    rows = await _rows(db, tenant_id, window, (OF_HOURS, OF_LINES), kind)
    found: dict[tuple[Any, ...], list[int]] = {}
    for *group, quantity, amount in rows:
        sums = found.setdefault(tuple(group), [0, 0])
        sums[0] += int(quantity or 0)
        sums[1] += int(amount or 0)
    return [PricedSums(*group, *sums) for group, sums in sorted(found.items())]


async def corrections_in(db: Database, tenant_id: str, window: PeriodWindow) -> list[HourlyCorrection]:
    """What a window's corrections and refunds came to, by hour and model, in order of time."""
    groups = (RollupPrice.hour_ms, RollupPrice.model), (LINE_HOUR, of_owner("model"))
    rows = await _rows(db, tenant_id, window, groups, LineKind.ADJUST)
    found: dict[tuple[int, str], int] = {}
    for hour, model, _, amount in rows:
        at = max(int(hour), window.start_ms)  # an edge's hour may begin before the window
        found[at, str(model)] = found.get((at, str(model)), 0) + int(amount or 0)
    return [HourlyCorrection(*at, amount) for at, amount in sorted(found.items()) if amount]


Groups = tuple[Sequence[Any], Sequence[Any]]  # the same columns of the rollups, and of the lines


async def _rows(
    db: Database, tenant_id: str, window: PeriodWindow, groups: Groups, kind: LineKind | None
) -> list[Sequence[Any]]:
    """Rows of (*group, quantity, amount), of one snapshot."""
    of_hours, of_lines = groups
    whole, seq = inner_hours(window), col(UsageLine.seq)
    async with db.snapshot() as session:
        connection = await session.connection()
        head = await session.get(LedgerHead, tenant_id)
        if head is None:
            return []
        hours = _of_hours(tenant_id, whole, of_hours, kind)
        rows: list[Any] = list((await connection.execute(hours)).all())
        pieces: list[tuple[PeriodWindow, tuple[Any, ...]]] = [(edge, ()) for edge in edges_of(window)]
        if head.rolled_seq < head.line_seq:
            pieces.append((whole, (seq > head.rolled_seq,)))
        for piece, where in pieces:
            lines = _of_lines(tenant_id, piece, of_lines, kind).where(*where)
            rows += (await connection.execute(lines)).all()
    return rows


def _of_hours(tenant_id: str, hours: PeriodWindow, groups: Sequence[Any], kind: LineKind | None) -> Any:
    sums = func.sum(col(RollupPrice.quantity)), func.sum(col(RollupPrice.amount_nano))
    statement = select(*groups, *sums).where(
        col(RollupPrice.tenant_id) == tenant_id,
        col(RollupPrice.hour_ms) >= hours.start_ms,
        col(RollupPrice.hour_ms) < hours.end_ms,
    )
    if kind is not None:
        statement = statement.where(col(RollupPrice.kind) == kind.value)
    return statement.group_by(*groups)


def _of_lines(tenant_id: str, piece: PeriodWindow, groups: Sequence[Any], kind: LineKind | None) -> Any:
    sums = func.sum(col(UsageLine.quantity)), func.sum(col(UsageLine.amount_nano))
    statement = with_owners(select(*groups, *sums)).where(
        col(UsageLine.tenant_id) == tenant_id,
        col(UsageLine.ended_ms) >= piece.start_ms,
        col(UsageLine.ended_ms) < piece.end_ms,
    )
    if kind is not None:
        statement = statement.where(col(UsageLine.kind) == kind.value)
    return statement.group_by(*groups)


async def models_used(db: Database, tenant_id: str, window: PeriodWindow) -> set[str]:
    """The models of a window's lines."""
    return {each.model for each in await priced_sums(db, tenant_id, window)}
