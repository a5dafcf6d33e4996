"""Reports on pools' GPUs in a time: ready, busy, idle, covered by commitments, overage, earnings and costs.
For operators, and for one tenant on its own. Reads only.

Windows are of whole hours (UTC). Ready time is booked some minutes after its hour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select as columns
from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.commitments import cost_at, gpu_costs
from billing.dedicated_pools.hours import GpuHour, ReadyInterval, hours_of
from billing.dedicated_pools.owners import owners_of
from billing.dedicated_pools.store import interval_of
from billing.money import round_half_even
from billing.periods import HOUR_MS, PeriodWindow
from billing.prices.price_file_tiers import HOUR_SECONDS
from billing.prices.rating import Meter
from billing.tables.dedicated_pools import GpuCost, PoolInterval
from billing.tables.ledger import RollupHour, UsageLine
from billing.tables.prices import Charge
from core.sql.database import Database
from core.sql.selects import select_columns, untyped


@dataclass(frozen=True)
class PoolSeconds:
    """A pool's GPU-seconds. `ready` by its heartbeats; `billed` by the books of its owners; without an owner
    `free` with requests of tenants who pay for tokens, and `idle` without requests.

    Once the hours are booked: ready = billed + idle + free."""

    ready: int
    billed: int
    idle: int
    free: int


@dataclass
class PoolUse:
    """One pool, owner (empty: shared) and type of GPU in a time; a commitment to any pool has no pool.

    GPU-seconds: `busy` with requests, `idle` without; `committed` covered, `overage` beyond, `reserved` paid
    for whether used or not. Nano-USD: `gpu_nano` for overage and reserved, `tokens_nano` of the pool's
    requests, `cost_nano` to the platform (None: not known)."""

    pool: str
    tenant_id: str
    gpu_type: str
    ready: int = 0
    busy: int = 0
    committed: int = 0
    overage: int = 0
    reserved: int = 0
    gpu_nano: int = 0
    tokens_nano: int = 0
    cost_nano: int | None = 0

    @property
    def idle(self) -> int:
        """Ready GPU-seconds without requests."""
        return self.ready - self.busy

    @property
    def margin_nano_per_hour(self) -> int | None:
        """Earnings less cost of a ready GPU-hour; None where the cost is not known."""
        if self.cost_nano is None or not self.ready:
            return None
        return round_half_even((self.gpu_nano + self.tokens_nano - self.cost_nano) * HOUR_SECONDS, self.ready)


async def pool_seconds(db: Database, pool: str, window: PeriodWindow) -> PoolSeconds:
    """A pool's GPU-seconds in whole hours. For operators."""
    async with db.snapshot() as session:
        hours = [each for _, each in await _hours(session, window) if each.pool == pool]
        billed = [
            row.quantity
            for row in await lines_of_pools(session, window, None)
            if row.pool == pool and row.used
        ]
    shared = [each for each in hours if not each.tenant_id]
    free = sum(each.busy_seconds for each in shared)
    return PoolSeconds(
        ready=sum(each.ready_seconds for each in hours),
        billed=sum(billed),
        idle=sum(each.ready_seconds for each in shared) - free,
        free=free,
    )


async def pool_usage(
    db: Database, window: PeriodWindow, tenant_id: str | None = None, region: str = ""
) -> list[PoolUse]:
    """Use of all pools, or of one tenant's, in order."""
    async with db.snapshot() as session:
        found: dict[tuple[str, str, str], PoolUse] = {}
        costs = await gpu_costs(session)
        for hour, each in await _hours(session, window):
            if tenant_id in (None, each.tenant_id):
                _add_hour(_of(found, each.pool, each.tenant_id, each.gpu_type), each, hour, costs, region)
        for row in await lines_of_pools(session, window, tenant_id):
            _add_line(_of(found, row.pool, row.tenant_id, row.gpu_type), row)
        for pool, owner, amount in await _tokens(
            session, window, tenant_id, {each.pool for each in found.values()}
        ):
            _add_tokens(found, pool, owner, amount)
    return [found[key] for key in sorted(found)]


async def pool_hours(db: Database, window: PeriodWindow) -> dict[tuple[str, int], tuple[int, int]]:
    """Ready and busy GPU-seconds by pool and hour, in order. For operators."""
    async with db.snapshot() as session:
        sums: dict[tuple[str, int], tuple[int, int]] = {}
        for hour, each in await _hours(session, window):
            ready, busy = sums.get((each.pool, hour), (0, 0))
            sums[each.pool, hour] = (ready + each.ready_seconds, busy + each.busy_seconds)
    return {key: sums[key] for key in sorted(sums)}


@dataclass(frozen=True)
class PoolLine:
    """Sums of lines of one pool, or of commitments to GPUs of any (no pool), at one price."""

    tenant_id: str
    pool: str
    gpu_type: str
    meter: str
    price_nano: int
    quantity: int
    amount_nano: int

    @property
    def used(self) -> bool:
        """True for GPU-seconds that were ready, not only reserved."""
        return self.meter == Meter.GPU_SECOND


def _of(found: dict[tuple[str, str, str], PoolUse], pool: str, tenant: str, gpu_type: str) -> PoolUse:
    return found.setdefault((pool, tenant, gpu_type), PoolUse(pool, tenant, gpu_type))


def _add_hour(use: PoolUse, each: GpuHour, hour: int, costs: Sequence[GpuCost], region: str) -> None:
    use.ready += each.ready_seconds
    use.busy += each.busy_seconds
    cost = cost_at(costs, each.gpu_type, hour + HOUR_MS - 1, region)
    if cost is None or use.cost_nano is None:
        use.cost_nano = None
    else:
        use.cost_nano += round_half_even(each.ready_seconds * cost, HOUR_SECONDS)


def _add_line(use: PoolUse, line: PoolLine) -> None:
    use.gpu_nano += line.amount_nano
    if not line.used:
        use.reserved += line.quantity
    elif line.price_nano:
        use.overage += line.quantity
    else:
        use.committed += line.quantity


def _add_tokens(
    found: dict[tuple[str, str, str], PoolUse], pool: str, tenant_id: str, amount_nano: int
) -> None:
    """Add token revenue to the pool's row of that owner, else to the shared one's."""
    rows = [each for each in found.values() if each.pool == pool]
    own = [each for each in rows if each.tenant_id == tenant_id] or [
        each for each in rows if not each.tenant_id
    ]
    if own or rows:
        (own or rows)[0].tokens_nano += amount_nano


async def _hours(session: AsyncSession, window: PeriodWindow) -> list[tuple[int, GpuHour]]:
    """(hour, GPU time in it). Reads all pools, since a device counts once wherever it is."""
    columns_of_interval = (getattr(PoolInterval, name) for name in PoolInterval.model_fields)
    statement = select_columns(*columns_of_interval).where(
        col(PoolInterval.hour_ms) >= window.start_ms, col(PoolInterval.hour_ms) < window.end_ms
    )
    by_hour: dict[int, list[ReadyInterval]] = {}
    for row in (await untyped(session).exec(statement)).all():
        by_hour.setdefault(row.hour_ms, []).append(interval_of(row))
    owners = await owners_of(session)
    return [(hour, each) for hour in sorted(by_hour) for each in hours_of(by_hour[hour], owners)]


async def lines_of_pools(
    session: AsyncSession, window: PeriodWindow, tenant_id: str | None
) -> list[PoolLine]:
    """Sums of the lines of pools and commitments."""
    group: list[Any] = [Charge.tenant_id, Charge.pool, Charge.model, UsageLine.meter, UsageLine.price_nano]
    same = (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (col(Charge.id) == col(UsageLine.request_id))
    sums = (func.sum(UsageLine.quantity), func.sum(UsageLine.amount_nano))
    statement = (
        columns(*group, *sums)
        .select_from(Charge)
        .join(UsageLine, same)
        .where(col(Charge.kind).in_(("pool", "commitment")))
        .where(col(Charge.start_ms) >= window.start_ms, col(Charge.start_ms) < window.end_ms)
        .group_by(*group)
    )
    if tenant_id is not None:
        statement = statement.where(col(Charge.tenant_id) == tenant_id)
    rows: Sequence[Any] = (await (await session.connection()).execute(statement)).all()
    return [
        PoolLine(tenant, pool, model.removeprefix("GPU "), meter, price, int(quantity), int(amount))
        for tenant, pool, model, meter, price, quantity, amount in rows
    ]


async def _tokens(
    session: AsyncSession, window: PeriodWindow, tenant_id: str | None, pools: Iterable[str]
) -> list[tuple[str, str, int]]:
    """(pool, tenant, revenue) of requests to these pools only."""
    statement = (
        select_columns(RollupHour.pool, RollupHour.tenant_id, func.sum(RollupHour.amount_nano))
        .where(col(RollupHour.hour_ms) >= window.start_ms, col(RollupHour.hour_ms) < window.end_ms)
        .where(col(RollupHour.model).not_like("GPU %"), col(RollupHour.pool).in_(sorted({*pools} - {""})))
        .group_by(col(RollupHour.pool), col(RollupHour.tenant_id))
    )
    if tenant_id is not None:
        statement = statement.where(col(RollupHour.tenant_id) == tenant_id)
    rows = (await untyped(session).exec(statement)).all()
    return [(pool, tenant, int(amount)) for pool, tenant, amount in rows]


def whole_hours(window: PeriodWindow) -> PeriodWindow:
    """Extend a window to the hours that it touches."""
    return PeriodWindow(window.start_ms - window.start_ms % HOUR_MS, -(-window.end_ms // HOUR_MS) * HOUR_MS)
