"""Checks rollups by price version against their lines, key by key. Reads only."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import literal_column
from sqlmodel import and_, col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import HOUR_MS
from billing.tables.ledger import LedgerHead, RollupPrice, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow
from core.sql.selects import select_columns, untyped

NAMES = ("hour", "model", "meter", "kind", "book", "version")
NONE = (0, 0)

PriceKey = tuple[Any, ...]  # NAMES
PriceRollups = Mapping[PriceKey, tuple[int, int]]  # quantity and amount


async def price_rollup_faults(session: AsyncSession, tenant_id: str, first: int, last: int) -> list[str]:
    """Find rollups of the hours from `first` to `last` that are not the sums of their lines."""
    kept = select(RollupPrice).where(
        col(RollupPrice.tenant_id) == tenant_id, col(RollupPrice.hour_ms).between(first, last)
    )
    found = {
        (row.hour_ms, row.model, row.meter, row.kind, row.price_book_id, row.price_version): (
            row.quantity,
            row.amount_nano,
        )
        for row in (await session.exec(kept)).all()
    }
    return price_differences(found, await _of_lines(session, tenant_id, first, last))


def price_differences(kept: PriceRollups, lines: PriceRollups) -> list[str]:
    """Differences between rollups and the sums of their lines. Pure."""
    faults: list[str] = []
    for key in sorted({*kept, *lines}):
        says, are = kept.get(key, NONE), lines.get(key, NONE)
        if says != are:
            of = " ".join(f"{name}={value}" for name, value in zip(NAMES, key, strict=True))
            faults.append(
                f"{of}: its rollup says quantity {says[0]} and amount {says[1]}, not {are[0]} and {are[1]}"
            )
    return faults


async def _of_lines(session: AsyncSession, tenant_id: str, first: int, last: int) -> PriceRollups:
    """Sum the lines of these hours as their rollups should."""
    rolled = select(LedgerHead.rolled_seq).where(col(LedgerHead.tenant_id) == tenant_id).scalar_subquery()
    hour = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS
    model: Any = func.coalesce(col(UsageRow.model), col(Charge.model), "")
    named: list[Any] = [
        hour,
        model,
        col(UsageLine.meter),
        col(UsageLine.kind),
        col(UsageLine.price_book_id),
        col(UsageLine.price_version),
    ]
    columns: list[Any] = [each.label(f"by_{name}") for name, each in zip(NAMES, named, strict=True)]
    sums = func.sum(col(UsageLine.quantity)), func.sum(col(UsageLine.amount_nano))
    statement = (
        select_columns(*columns, *sums)
        .select_from(UsageLine)
        .outerjoin(UsageRow, _same(UsageRow.tenant_id, UsageRow.request_id))
        .outerjoin(Charge, _same(Charge.tenant_id, Charge.id))
        .where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.seq) <= func.coalesce(rolled, 0),
            col(UsageLine.ended_ms).between(first, last + HOUR_MS - 1),
        )
        .group_by(*(literal_column(each.name) for each in columns))
    )
    rows = (await untyped(session).exec(statement)).all()
    return {tuple(row[:-2]): (int(row[-2]), int(row[-1])) for row in rows}


def _same(tenant: Any, id: Any) -> Any:
    return and_(col(tenant) == col(UsageLine.tenant_id), col(id) == col(UsageLine.request_id))
