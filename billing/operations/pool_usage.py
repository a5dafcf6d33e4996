"""Operations that show the use of pools' GPUs: ready, busy, idle, committed, earnings and costs; and how busy
they were hour by hour."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.dedicated_pools.reports import PoolUse, pool_hours, pool_usage, whole_hours
from billing.operations.known_times import begun_month
from billing.periods import HOUR_MS, UTC_ZONE, Calendar, PeriodWindow
from billing.prices.calendars import calendar_of
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import tenant_names
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import MONEY, OPERATORS, STAFF, ListedPage, MoneyAmount, Uses, operation

DAY_MS = 24 * HOUR_MS


class AskPoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Whose use, and when."""

    tenant: Annotated[
        str | None,
        Meta(description="Only this tenant's (name or id), by its own time zone; else all, by UTC."),
    ] = None
    month: Annotated[str | None, Meta(description="As 2026-10; by default the last 24 hours.")] = None
    region: Annotated[str, Meta(description="By whose GPU costs.")] = ""


class PoolUseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One pool, owner (empty: shared) and type of GPU. `committed`: covered by commitments; `overage`:
    beyond; `reserved`: paid for whether used or not; `cost` None: nobody said what this GPU costs."""

    pool: str
    tenant: str
    gpu_type: str
    ready_gpu_seconds: int
    busy_gpu_seconds: int
    idle_gpu_seconds: int
    committed_gpu_seconds: int
    overage_gpu_seconds: int
    reserved_gpu_seconds: int
    gpu: MoneyAmount
    tokens: MoneyAmount
    cost: MoneyAmount | None
    margin_per_gpu_hour: MoneyAmount | None


class ShownPoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The use of whole hours."""

    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    uses: list[PoolUseFacts]


class PoolHour(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's GPU-seconds in an hour, which begins at `at`. The one that runs is not over."""

    pool: str
    at: str | None
    ready_gpu_seconds: int
    busy_gpu_seconds: int


class AskPoolHours(msgspec.Struct, frozen=True):
    """All pools, the last 24 hours."""


@operation("pools.hours", "GET /pools/hours", may=STAFF, uses=Uses(reads="pool_interval pool_owner"))
async def list_pool_hours(look: Look, ask: AskPoolHours) -> ListedPage[PoolHour]:
    """List ready and busy GPU-seconds of all pools in each of the last 24 hours, by pool and hour. An hour
    without ready GPUs has no row."""
    now = look.now_ms()
    hours = await pool_hours(look.db, whole_hours(PeriodWindow(now - DAY_MS, now)))
    return ListedPage(
        [
            PoolHour(pool=pool, at=iso_time(hour), ready_gpu_seconds=ready, busy_gpu_seconds=busy)
            for (pool, hour), (ready, busy) in hours.items()
        ]
    )


@operation(
    "pools.usage",
    "GET /pools/usage",
    may=OPERATORS | MONEY,
    uses=Uses(
        reads="tenant period_close pool_interval pool_owner commitment gpu_cost usage_line charge rollup_hour"
    ),
)
async def show_pool_usage(look: Look, ask: AskPoolUsage) -> ShownPoolUsage:
    """Show ready, busy and idle GPU-seconds, the committed and overage part of them, earnings and costs.

    Whole hours; the one that runs is not over and not billed."""
    owner = None if ask.tenant is None else await look.tenant(ask.tenant)
    window = whole_hours(await _window(look, owner, ask.month))
    uses = await pool_usage(look.db, window, owner.tenant_id if owner else None, ask.region)
    names = await tenant_names(look.db, (each.tenant_id for each in uses))
    return ShownPoolUsage(
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        uses=[_facts(each, names) for each in uses],
    )


async def _window(look: Look, owner: Tenant | None, month: str | None) -> PeriodWindow:
    now = look.now_ms()
    if not month:
        return PeriodWindow(now - DAY_MS, now)
    calendar = await calendar_of(look.db, owner) if owner else Calendar(UTC_ZONE)
    return begun_month(month, calendar, now)


def _facts(use: PoolUse, names: Mapping[str, str]) -> PoolUseFacts:
    return PoolUseFacts(
        pool=use.pool,
        tenant=names.get(use.tenant_id, use.tenant_id),
        gpu_type=use.gpu_type,
        ready_gpu_seconds=use.ready,
        busy_gpu_seconds=use.busy,
        idle_gpu_seconds=use.idle,
        committed_gpu_seconds=use.committed,
        overage_gpu_seconds=use.overage,
        reserved_gpu_seconds=use.reserved,
        gpu=MoneyAmount.of(use.gpu_nano),
        tokens=MoneyAmount.of(use.tokens_nano),
        cost=_amount(use.cost_nano),
        margin_per_gpu_hour=_amount(use.margin_nano_per_hour),
    )


def _amount(nano: int | None) -> MoneyAmount | None:
    return None if nano is None else MoneyAmount.of(nano)


OPERATIONS = (show_pool_usage, list_pool_hours)
