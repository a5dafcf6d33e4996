"""The operation that shows what a tenant's own pools were used for in a month, and cost while idle."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.dedicated_pools.own_pools import GpuTime, OwnPool, commitments_in, covers, own_pools
from billing.operations.known_times import begun_month
from billing.operations.shared_fields import NameTenant
from billing.periods import HOUR_MS, Calendar, PeriodWindow, month_text
from billing.prices.calendars import calendar_of
from billing.tables.dedicated_pools import Commitment
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

WAITS_MS = 7 * 24 * HOUR_MS


class AskOwnPools(NameTenant, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None


class OwnPoolDay(msgspec.Struct, frozen=True, kw_only=True):
    """GPU-seconds of a day: ready, and of them with requests."""

    day: str
    ready_gpu_seconds: int
    busy_gpu_seconds: int


class PoolCommitment(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that are paid for until a time, used or not. `any_pool`: in whichever pool of the tenant's;
    `rate`: for a GPU-hour."""

    gpus: int
    gpu: str
    rate: MoneyAmount
    until: str | None
    any_pool: bool


class BusiestHour(msgspec.Struct, frozen=True, kw_only=True):
    """The hour in which the largest part of the ready time was used."""

    at: str | None
    ready_gpu_seconds: int
    busy_gpu_seconds: int


class OwnPoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of the tenant's own. `cost` is that of `used` and `idle` time; `longest_wait_ms`: from sending
    to a worker, of requests that ended since `waits_since`; None: none ended."""

    pool: str
    gpu_types: list[str]
    ready_gpu_seconds: int
    busy_gpu_seconds: int
    idle_gpu_seconds: int
    used: MoneyAmount
    idle: MoneyAmount
    cost: MoneyAmount
    days: list[OwnPoolDay]
    commitments: list[PoolCommitment]
    busiest: BusiestHour | None
    longest_wait_ms: int | None


class MonthOfOwnPools(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's own pools in a month. The hour that runs is not over and not billed."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    waits_since: str | None
    pools: list[OwnPoolFacts]


@operation(
    "spend.pools",
    "GET /tenants/{tenant}/spend/pools",
    may=STAFF | PAYERS,
    uses=Uses(reads="tenant period_close pool_interval pool_owner commitment usage_line charge usage_event"),
)
async def show_own_pools(look: Look, ask: AskOwnPools) -> MonthOfOwnPools:
    """Show a tenant's own pools in a month: by day how long their GPUs were used and idle, what that cost,
    how long requests waited, and until when the GPUs are committed to."""
    owner = await look.tenant(ask.tenant)
    calendar, now = await calendar_of(look.db, owner), look.now_ms()
    whole = begun_month(ask.month, calendar, now)
    window = PeriodWindow(whole.start_ms, max(whole.start_ms, min(whole.end_ms, now)))
    days = days_of(window, calendar)
    waits_from = max(window.start_ms, window.end_ms - WAITS_MS)
    hours = PeriodWindow(*(-(-at // HOUR_MS) * HOUR_MS for at in window))  # by when they begin
    pools = await own_pools(look.db, owner.tenant_id, hours, days, waits_from)
    held = await commitments_in(look.db, owner.tenant_id, window)
    zone = calendar.zone_of(calendar.month_at(window.start_ms))
    named = {at: datetime.fromtimestamp(at // 1000, zone).date().isoformat() for at in days}
    return MonthOfOwnPools(
        tenant=owner.tenant_id,
        month=month_text(calendar.month_at(whole.start_ms)),
        start=iso_time(whole.start_ms),
        end=iso_time(whole.end_ms),
        time_zone=str(zone),
        waits_since=iso_time(waits_from),
        pools=[_facts(each, named, held) for each in pools],
    )


def days_of(window: PeriodWindow, calendar: Calendar) -> list[int]:
    """When each day that a window touches begins. Pure."""
    days, at = list[int](), window.start_ms
    while at < window.end_ms:
        days.append(at)
        at = calendar.day_at(at).end_ms
    return days or [window.start_ms]


def _facts(pool: OwnPool, days: dict[int, str], held: Sequence[Commitment]) -> OwnPoolFacts:
    time, used = pool.time, pool.used_nano
    return OwnPoolFacts(
        pool=pool.pool,
        gpu_types=sorted(pool.gpu_types),
        ready_gpu_seconds=time.ready,
        busy_gpu_seconds=time.busy,
        idle_gpu_seconds=time.idle,
        used=MoneyAmount.of(used),
        idle=MoneyAmount.of(pool.cost_nano - used),
        cost=MoneyAmount.of(pool.cost_nano),
        days=[_day(name, pool.days.get(at, GpuTime())) for at, name in days.items()],
        commitments=[_committed(each) for each in held if covers(each, pool)],
        busiest=_busiest(pool),
        longest_wait_ms=pool.longest_wait_ms,
    )


def _day(day: str, time: GpuTime) -> OwnPoolDay:
    return OwnPoolDay(day=day, ready_gpu_seconds=time.ready, busy_gpu_seconds=time.busy)


def _busiest(pool: OwnPool) -> BusiestHour | None:
    if pool.busiest is None:
        return None
    at, time = pool.busiest
    return BusiestHour(at=iso_time(at), ready_gpu_seconds=time.ready, busy_gpu_seconds=time.busy)


def _committed(each: Commitment) -> PoolCommitment:
    return PoolCommitment(
        gpus=each.gpus,
        gpu=each.gpu_type,
        rate=MoneyAmount.of(each.rate_nano),
        until=iso_time(each.until_ms),
        any_pool=not each.pool,
    )


OPERATIONS = (show_own_pools,)
