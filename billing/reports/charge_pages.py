"""A tenant's charges in a period: one for each hour, price, meter and owner. Reads only, page by page, so
that a month of any size is read in the same memory."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlmodel import col, func

from billing.ledger.declared_tags import tag_spans
from billing.periods import HOUR_MS, PeriodWindow
from billing.prices.rating import Meter
from billing.reports.tag_values import value_of_lines
from billing.tables.ledger import UsageLine
from billing.tables.prices import Charge as OtherCharge
from billing.tables.tenants import UsageRow
from core.sql.database import Database

ROWS_AT_ONCE = 2_000


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
    db: Database, tenant_id: str, period: PeriodWindow, known_ms: int | None, seconds_max: float
) -> int:
    """How many charges there are. Raises DBAPIError (`is_out_of_time`) where it takes longer."""
    _, tags = await _tags(db, tenant_id)
    every = _statement(tenant_id, period, known_ms, tags).order_by(None).subquery()
    async with db.short_snapshot(seconds_max) as session:
        connection = await session.connection()
        return int((await connection.execute(select(func.count()).select_from(every))).scalar_one())


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
