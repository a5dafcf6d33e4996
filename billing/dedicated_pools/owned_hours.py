"""A tenant's GPU time by the hour, added up by the database as `hours_of` does: a month of a large pool has
thousands of intervals for each GPU. Reads only."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import case, func, or_, select
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.hours import GpuHour
from billing.periods import PeriodWindow
from billing.tables.dedicated_pools import PoolInterval, PoolOwner


async def owned_hours(
    session: AsyncSession, tenant_id: str, pools: Collection[str], window: PeriodWindow
) -> list[tuple[int, GpuHour]]:
    """(hour, GPU time in it) of these pools while they were the tenant's, in order. A device counts once, so
    that intervals of the same devices in other pools are read too."""
    connection = await session.connection()
    parts = _parts(tenant_id, pools, window, connection.dialect.name).subquery("parts")
    ready: Any = parts.c.end_ms - parts.c.start_ms
    busy = parts.c.busy_ms * ready // parts.c.length_ms * parts.c.gpus
    key = parts.c.hour_ms, parts.c.pool, parts.c.project_id, parts.c.gpu_type
    statement: Any = select(*key, func.sum(ready * parts.c.gpus), func.sum(busy))
    statement = statement.where(parts.c.start_ms < parts.c.end_ms).group_by(*key)
    rows: list[Any] = list((await connection.execute(statement)).all())
    return sorted(
        (int(hour), GpuHour(pool, tenant_id, project, gpu_type, int(ready_ms), int(busy_ms)))
        for hour, pool, project, gpu_type, ready_ms, busy_ms in rows
    )


def _parts(tenant_id: str, pools: Collection[str], window: PeriodWindow, dialect: str) -> Any:
    """Selects times in which a device was ready, for the interval that began first, and a pool was the
    tenant's; some are empty."""
    found, owned = _intervals(pools, window, dialect), _ownerships(pools)
    start = _later(found.c.from_ms, func.coalesce(found.c.reached_ms, 0))
    until = func.coalesce(owned.c.until_ms, window.end_ms)
    return (
        select(
            found.c.hour_ms,
            found.c.pool,
            owned.c.project_id,
            found.c.gpu_type,
            found.c.gpus,
            found.c.busy_ms,
            func.nullif(found.c.to_ms - found.c.from_ms, 0).label("length_ms"),
            _later(owned.c.from_ms, start).label("start_ms"),
            case((until < found.c.to_ms, until), else_=found.c.to_ms).label("end_ms"),
        )
        .join_from(found, owned, found.c.pool == owned.c.pool)
        .where(owned.c.tenant_id == tenant_id)
    )


def _intervals(pools: Collection[str], window: PeriodWindow, dialect: str) -> Any:
    """Intervals of the pools' devices. `reached_ms`: until when earlier ones of the hour had the device."""
    own = col(PoolInterval.pool).in_(sorted(pools))
    in_window = (col(PoolInterval.hour_ms) >= window.start_ms, col(PoolInterval.hour_ms) < window.end_ms)
    devices = select(col(PoolInterval.device)).where(own, *in_window).distinct()
    names = [col(PoolInterval.pool), col(PoolInterval.worker)]
    order: list[Any] = [each.collate("C") for each in names] if dialect == "postgresql" else [*names]
    of_device: list[Any] = [PoolInterval.hour_ms, PoolInterval.device]
    reached = func.max(col(PoolInterval.to_ms)).over(
        partition_by=of_device, order_by=[col(PoolInterval.from_ms), *order], rows=(None, -1)
    )
    columns: Any = (getattr(PoolInterval, name) for name in PoolInterval.model_fields)
    statement: Any = select(*columns, reached.label("reached_ms"))
    return statement.where(*in_window, or_(own, col(PoolInterval.device).in_(devices))).subquery("found")


def _ownerships(pools: Collection[str]) -> Any:
    """Who had the pools, each `from_ms` to `until_ms` (NULL: it has it now)."""
    next_ms = func.lead(col(PoolOwner.from_ms)).over(
        partition_by=col(PoolOwner.pool), order_by=col(PoolOwner.from_ms)
    )
    columns: Any = (PoolOwner.pool, PoolOwner.tenant_id, PoolOwner.project_id, PoolOwner.from_ms)
    statement = select(*columns, next_ms.label("until_ms")).where(col(PoolOwner.pool).in_(sorted(pools)))
    return statement.subquery("owned")


def _later(one: Any, other: Any) -> Any:
    return case((other > one, other), else_=one)
