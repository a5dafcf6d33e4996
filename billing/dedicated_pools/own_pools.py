"""How a tenant's own pools were used, by day, and what they cost while idle. Reads only.

Ready and busy time is what workers reported; cost is what the books have, which lag by some minutes. An hour
(UTC) belongs to the day in which it begins. A commitment to GPUs of any pool is shared out by ready time.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import col, func
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.commitment_rates import ANY_GPU
from billing.dedicated_pools.commitments import gpu_commitments_of
from billing.dedicated_pools.hours import GpuHour, PoolOwnership
from billing.dedicated_pools.owned_hours import owned_hours
from billing.dedicated_pools.owners import owners_of
from billing.dedicated_pools.reports import PoolLine, lines_of_pools
from billing.money import round_half_even
from billing.periods import PeriodWindow
from billing.tables.dedicated_pools import Commitment
from billing.tables.tenants import UsageRow
from core.sql.database import Database
from core.sql.selects import select_columns, untyped


@dataclass
class GpuTime:
    """GPU-seconds in which workers were ready, and of them with requests."""

    ready: int = 0
    busy: int = 0

    def add(self, hour: GpuHour) -> None:
        """Add an hour of one type of GPU."""
        self.ready += hour.ready_seconds
        self.busy += hour.busy_seconds

    @property
    def idle(self) -> int:
        """GPU-seconds without requests."""
        return self.ready - self.busy


@dataclass
class OwnPool:
    """One pool of a tenant's own. `days`: by the start of each; `hours`: by the start of each hour."""

    pool: str
    gpu_types: set[str] = field(default_factory=set[str])
    days: dict[int, GpuTime] = field(default_factory=dict[int, GpuTime])
    hours: dict[int, GpuTime] = field(default_factory=dict[int, GpuTime])
    cost_nano: int = 0
    longest_wait_ms: int | None = None

    @property
    def time(self) -> GpuTime:
        """Of all days."""
        days = self.days.values()
        return GpuTime(sum(each.ready for each in days), sum(each.busy for each in days))

    @property
    def used_nano(self) -> int:
        """The part of its cost for the time with requests; the rest is for the time without."""
        time = self.time
        return round_half_even(self.cost_nano * time.busy, time.ready) if time.ready else 0

    @property
    def busiest(self) -> tuple[int, GpuTime] | None:
        """The hour with the largest part of its ready time used, the first of such."""
        hours = [(at, time) for at, time in sorted(self.hours.items()) if time.ready]
        return max(hours, key=lambda each: each[1].busy / each[1].ready, default=None)


async def own_pools(
    db: Database, tenant_id: str, window: PeriodWindow, days: Sequence[int], waits_from_ms: int
) -> list[OwnPool]:
    """The tenant's pools that it had in a window of whole hours, by name. `days`: the start of each day;
    waits are those of requests that ended from then on."""
    async with db.snapshot() as session:
        owners = await owners_of(session)
        names = {pool: times for pool, times in owners.items() if _had(tenant_id, times, window)}
        if not names:
            return []
        pools = {name: OwnPool(name) for name in names}
        for hour_ms, each in await owned_hours(session, tenant_id, names, window):
            _add(pools[each.pool], each, hour_ms, days[bisect_right(days, hour_ms) - 1])
        share_costs(pools, await lines_of_pools(session, window, tenant_id))
        waits = await _longest_waits(session, tenant_id, names, PeriodWindow(waits_from_ms, window.end_ms))
        for name, wait_ms in waits.items():
            pools[name].longest_wait_ms = wait_ms
    return [pools[name] for name in sorted(pools)]


async def commitments_in(db: Database, tenant_id: str, window: PeriodWindow) -> list[Commitment]:
    """The tenant's commitments that are in force in a window, oldest first."""
    async with db.session() as session:
        held = await gpu_commitments_of(session, tenant_id)
    return [each for each in held if each.start_ms < window.end_ms and each.until_ms > window.start_ms]


def covers(commitment: Commitment, pool: OwnPool) -> bool:
    """True for a commitment that may cover GPUs of the pool. Pure."""
    of_type = commitment.gpu_type == ANY_GPU or commitment.gpu_type in pool.gpu_types or not pool.gpu_types
    return commitment.pool in ("", pool.pool) and of_type


def share_costs(pools: Mapping[str, OwnPool], lines: Iterable[PoolLine]) -> None:
    """Add the cost of lines to their pools, to the nano; what is of no one pool is shared out by ready time
    of its type of GPU, else evenly. Pure but for its pools."""
    for line in lines:
        if line.pool in pools:
            pools[line.pool].cost_nano += line.amount_nano
        elif not line.pool:
            fit = [each for each in pools.values() if line.gpu_type in (ANY_GPU, *each.gpu_types)]
            _share(line.amount_nano, fit or list(pools.values()))


def _share(nano: int, among: Sequence[OwnPool]) -> None:
    weights = [each.time.ready for each in among]
    if not sum(weights):
        weights = [1] * len(among)
    whole, reached, given = sum(weights), 0, 0
    for pool, weight in zip(among, weights, strict=True):
        reached += weight
        until = nano * reached // whole
        pool.cost_nano += until - given
        given = until


def _add(pool: OwnPool, each: GpuHour, hour_ms: int, day_ms: int) -> None:
    pool.gpu_types.add(each.gpu_type)
    pool.days.setdefault(day_ms, GpuTime()).add(each)
    pool.hours.setdefault(hour_ms, GpuTime()).add(each)


def _had(tenant_id: str, times: Sequence[PoolOwnership], window: PeriodWindow) -> bool:
    """True where a pool was the tenant's at some time of the window. Pure."""
    ends = [*(each.from_ms for each in times[1:]), window.end_ms]
    return any(
        each.tenant_id == tenant_id and each.from_ms < window.end_ms and until > window.start_ms
        for each, until in zip(times, ends, strict=True)
    )


async def _longest_waits(
    session: AsyncSession, tenant_id: str, pools: Iterable[str], window: PeriodWindow
) -> dict[str, int]:
    """The longest time from acceptance to a worker, by pool, of requests that ended in the window."""
    wait: Any = func.max(col(UsageRow.claimed_ms) - col(UsageRow.accepted_ms))
    statement = (
        select_columns(UsageRow.pool, wait)
        .where(col(UsageRow.tenant_id) == tenant_id, col(UsageRow.pool).in_(sorted(pools)))
        .where(col(UsageRow.ended_ms) >= window.start_ms, col(UsageRow.ended_ms) < window.end_ms)
        .where(col(UsageRow.claimed_ms) >= col(UsageRow.accepted_ms))
        .group_by(col(UsageRow.pool))
    )
    return {pool: int(ms) for pool, ms in (await untyped(session).exec(statement)).all()}
