"""A tenant's charges in a period: one for each hour, price, meter and owner. Reads only, page by page, so
that a month of any size is read in the same memory."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import case, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col, func

from billing.ledger.declared_tags import tag_spans
from billing.ledger.transactions import MEASURES
from billing.periods import HOUR_MS, PeriodWindow
from billing.prices.rating import Meter
from billing.reports.tag_values import value_of_lines
from billing.tables.ledger import RollupHour, UsageLine
from billing.tables.prices import Charge as OtherCharge
from billing.tables.tenants import UsageRow
from core.sql.database import Database

ROWS_AT_ONCE = 2_000
LINES_COUNTED_MAX = 20_000  # of a period whose charges are counted exactly


@dataclass(frozen=True)
class FocusCharge:
    """Sum of one hour's lines with the same price, meter and owner. The hour is in their billing period;
    `start_ms` to `end_ms` is the time charged for: a month for a true-up, and an hour of the closed month for
    usage that came after its close."""

    hour_ms: int
    start_ms: int
    end_ms: int
    project_id: str
    cost_center_id: str
    key_id: str
    user_id: str
    model: str
    pool: str
    kind: str
    meter: str
    price_book_id: str
    price_version: int
    price_nano: int
    currency: str
    quantity: int
    amount_nano: int
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


class ChargeCount(NamedTuple):
    """A number of charges. `about`: the rollups say so, which do not tell apart what only prices, tags or
    corrections do."""

    charges: int
    about: bool


async def charge_pages(
    db: Database, tenant_id: str, period: PeriodWindow, known_ms: int | None = None
) -> AsyncGenerator[Sequence[FocusCharge]]:
    """Yield pages of a tenant's charges in a period, hour by hour, without lines that have neither a cost nor
    a quantity to price. `known_ms`: as the books said then."""
    keys, tags = await _tags(db, tenant_id)
    async with db.looking() as connection:
        rows = await connection.stream(_statement(tenant_id, period, known_ms, tags))
        async for page in rows.partitions(ROWS_AT_ONCE):
            yield [_charge(tuple(row), keys) for row in page]


def _charge(row: tuple[Any, ...], keys: Sequence[str]) -> FocusCharge:
    *facts, quantity, amount = row
    values = facts[len(facts) - len(keys) :]
    tags = {key: value for key, value in zip(keys, values, strict=True) if value}
    known = facts[: len(facts) - len(keys)]
    return FocusCharge(*known, quantity=int(quantity), amount_nano=int(amount), tags=tags)


async def tag_keys(db: Database, tenant_id: str) -> list[str]:
    """The keys that a tenant ever declared, in order."""
    return (await _tags(db, tenant_id))[0]


async def _tags(db: Database, tenant_id: str) -> tuple[list[str], list[Any]]:
    """Those keys, and the SQL of the value of each."""
    async with db.session() as session:
        spans = (await tag_spans(session, [tenant_id])).get(tenant_id, [])
    keys = sorted({span.key for span in spans})
    return keys, [value_of_lines(key, spans, db.dialect) for key in keys]


async def count_charges(
    db: Database, tenant_id: str, period: PeriodWindow, known_ms: int | None
) -> ChargeCount:
    """How many charges there are: counted where a period has few lines, else by the rollups."""
    _, tags = await _tags(db, tenant_id)
    async with db.snapshot() as session:
        connection = await session.connection()
        if not await _has_many_lines(connection, tenant_id, period):
            every = _statement(tenant_id, period, known_ms, tags).order_by(None).subquery()
            found = await connection.execute(select(func.count()).select_from(every))
            return ChargeCount(int(found.scalar_one()), about=False)
        rolled = await connection.execute(_rolled_charges(tenant_id, period))
        return ChargeCount(int(rolled.scalar_one() or 0), about=True)


async def _has_many_lines(connection: AsyncConnection, tenant_id: str, period: PeriodWindow) -> bool:
    some = select(col(UsageLine.ended_ms)).where(
        col(UsageLine.tenant_id) == tenant_id,
        col(UsageLine.ended_ms) >= period.start_ms,
        col(UsageLine.ended_ms) < period.end_ms,
    )
    counted = select(func.count()).select_from(some.limit(LINES_COUNTED_MAX + 1).subquery())
    return int((await connection.execute(counted)).scalar_one()) > LINES_COUNTED_MAX


def _rolled_charges(tenant_id: str, period: PeriodWindow) -> Any:
    """A select of the sum of the meters that each hour's payers used; what has a cost alone is one charge."""
    meters: Any = sum(case((col(getattr(RollupHour, name)) > 0, 1), else_=0) for name in MEASURES.values())
    charges = case((meters > 0, meters), (col(RollupHour.amount_nano) != 0, 1), else_=0)
    return select(func.sum(charges)).where(
        col(RollupHour.tenant_id) == tenant_id,
        col(RollupHour.hour_ms) >= period.start_ms - period.start_ms % HOUR_MS,
        col(RollupHour.hour_ms) < period.end_ms,
    )


def _statement(tenant_id: str, period: PeriodWindow, known_ms: int | None, tags: Sequence[Any]) -> Any:
    hour: Any = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS
    ended: Any = func.coalesce(UsageRow.ended_ms, UsageLine.ended_ms)
    ended_hour: Any = ended - ended % HOUR_MS
    times: list[Any] = [
        hour,
        func.coalesce(OtherCharge.start_ms, ended_hour),
        func.coalesce(OtherCharge.end_ms, ended_hour + HOUR_MS),
    ]
    of_request = [_whose(name) for name in ("key_id", "user_id", "model", "pool")]
    of_line: list[Any] = [
        UsageLine.kind,
        UsageLine.meter,
        UsageLine.price_book_id,
        UsageLine.price_version,
        UsageLine.price_nano,
    ]
    whom = [_whose("project_id"), UsageLine.cost_center_id]
    group = [*times, *whom, *of_request, *of_line, _whose("currency"), *tags]
    sums = [func.sum(col(UsageLine.quantity)), func.sum(col(UsageLine.amount_nano))]
    same = (col(UsageRow.tenant_id) == col(UsageLine.tenant_id)) & (
        col(UsageRow.request_id) == col(UsageLine.request_id)
    )
    other = (col(OtherCharge.tenant_id) == col(UsageLine.tenant_id)) & (
        col(OtherCharge.id) == col(UsageLine.request_id)
    )
    columns: list[Any] = [*group, *sums]
    statement = (
        select(*columns)
        .select_from(UsageLine)
        .outerjoin(UsageRow, same)
        .outerjoin(OtherCharge, other)
        .where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.ended_ms) >= period.start_ms,
            col(UsageLine.ended_ms) < period.end_ms,
            (col(UsageLine.price_nano) > 0)
            | (col(UsageLine.amount_nano) != 0)
            | (col(UsageLine.meter) != Meter.REQUEST.value),
        )
        .group_by(*group)
    )
    if known_ms is not None:
        statement = statement.where(col(UsageLine.posted_ms) <= known_ms)
    return statement.order_by(*group)


def _whose(name: str) -> Any:
    """A column of a line's request, or of its charge where it has no request."""
    return func.coalesce(getattr(UsageRow, name), getattr(OtherCharge, name))
