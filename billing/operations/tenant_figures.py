"""Operations that show how tenants do: now, in the last hour, and what the month costs so far."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from sqlmodel import col, select

from billing.dedicated_pools.live import RUNNING_KEYS, running_in
from billing.operations.shared_fields import NameTenant
from billing.operations.tenants import ListTenants, rows_listed
from billing.periods import HOUR_MS, month_text
from billing.prices.calendars import calendar_of
from billing.quota.open_requests import OPEN_KEYS, count_open
from billing.reports.tenant_figures import cost_in, last_hours, recent_ends, sums_of
from billing.reports.tenant_needs import TenantNeed, count_open_tenants, tenant_needs
from billing.tables.tenants import Tenant
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import STAFF, ListedPage, MoneyAmount, Role, Uses, operation
from core.redis import redis_errors

SEE_NO_REQUESTS = frozenset({Role.FINANCE})
USED = "period_close rollup_hour"


class ListNeeds(ListQuestion, frozen=True, kw_only=True):
    """Nothing more is asked."""


class RunningInPool(msgspec.Struct, frozen=True):
    """How many requests of a tenant a pool runs."""

    pool: str
    running: int


class TenantHour(msgspec.Struct, frozen=True):
    """What ended in an hour, and its cost. `hour`: when it began, in UTC."""

    hour: str | None
    ended: int
    errors: int
    cost: MoneyAmount


class TenantNow(msgspec.Struct, frozen=True, kw_only=True):
    """How a tenant does. `running`, `open` (with what waits) and `pools` None: Redis does not answer, or its
    reader sees no requests. `ended`, `errors` and `first_token_p95_ms` are of the last hour; `more`: of its
    newest requests only. `hours`: the last day, oldest first. Costs are by the tenant's own month and day."""

    tenant: str
    running: int | None
    open: int | None
    pools: list[RunningInPool] | None
    ended: int
    errors: int
    first_token_p95_ms: int | None
    more: bool
    hours: list[TenantHour]
    month: str
    month_cost: MoneyAmount
    day_cost: MoneyAmount


class TenantFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How a tenant of a list does. `open`: its requests that run or wait; None: nobody knows. `ended` and
    `errors` are of the last 24 hours, the cost is of its month so far."""

    tenant: str
    open: int | None
    ended: int
    errors: int
    month_cost: MoneyAmount


class NeedyTenant(msgspec.Struct, frozen=True):
    """A tenant that somebody should look at, and why."""

    tenant: str
    name: str
    needs: list[TenantNeed]


class NeedyTenants(ListedPage[NeedyTenant], frozen=True, kw_only=True):
    """Those by name. `needy`: how many there are; `tenants`: of how many open ones."""

    needy: int
    tenants: int


@operation(
    "tenants.now",
    "GET /tenants/{tenant}/now",
    may=STAFF,
    uses=Uses(reads=f"tenant usage_event usage_line charge {USED}", keys=(*RUNNING_KEYS, *OPEN_KEYS)),
)
async def show_now(look: Look, ask: NameTenant) -> TenantNow:
    """Show what a tenant runs, how its last hour went, and what its month costs so far."""
    owner = await look.tenant(ask.tenant)
    id, now = owner.tenant_id, look.now_ms()
    pools, opened = await _running(look, id)
    ends, calendar = await recent_ends(look.db, id, now - HOUR_MS), await calendar_of(look.db, owner)
    month, day = calendar.month_at(now), calendar.day_at(now)
    return TenantNow(
        tenant=id,
        running=None if pools is None else sum(pools.values()),
        open=opened,
        pools=None if pools is None else [RunningInPool(*each) for each in _most_first(pools)],
        ended=ends.ended,
        errors=ends.errors,
        first_token_p95_ms=ends.first_token_p95_ms,
        more=ends.more,
        hours=[
            TenantHour(iso_time(each.hour_ms), each.requests, each.errors, MoneyAmount.of(each.amount_nano))
            for each in await last_hours(look.db, id, now)
        ],
        month=month_text(month),
        month_cost=MoneyAmount.of(await cost_in(look.db, id, calendar.window(month), calendar)),
        day_cost=MoneyAmount.of(await cost_in(look.db, id, day, calendar)),
    )


@operation(
    "tenants.figures",
    "GET /tenant-figures",
    may=STAFF,
    uses=Uses(reads=f"tenant usage_event usage_line charge {USED}", keys=OPEN_KEYS),
)
async def list_figures(look: Look, ask: ListTenants) -> ListedPage[TenantFigures]:
    """List how the tenants of a list do, in its order."""
    statement, key = rows_listed(look, ask)
    page = await listed_page(look, ask, statement, key, lambda row: row)
    sums = await sums_of(look.db, page.items, look.now_ms())
    opened = await _open(look, [row.tenant_id for row in page.items])
    return ListedPage(
        [
            TenantFigures(
                tenant=id,
                open=opened.get(id),
                ended=each.requests,
                errors=each.errors,
                month_cost=MoneyAmount.of(each.month_nano),
            )
            for id, each in sums.items()
        ],
        page.next,
    )


@operation(
    "tenants.needs",
    "GET /tenant-needs",
    may=STAFF,
    uses=Uses(
        reads="tenant budget budget_spent wallet wallet_grant wallet_owed noisy_finding",
    ),
)
async def list_needs(look: Look, ask: ListNeeds) -> NeedyTenants:
    """List the tenants that somebody should look at by name, and why: spent budgets, empty wallets, debts,
    more than a fair share."""
    found = await tenant_needs(look.db, look.now_ms())
    statement = select(Tenant).where(col(Tenant.tenant_id).in_(found))
    order = (col(Tenant.name), col(Tenant.tenant_id))
    page: ListedPage[Tenant] = await listed_page(look, ask, statement, order, lambda row: row)
    items = [NeedyTenant(row.tenant_id, row.name, found[row.tenant_id]) for row in page.items]
    return NeedyTenants(items, page.next, needy=len(found), tenants=await count_open_tenants(look.db))


async def _running(look: Look, tenant_id: str) -> tuple[dict[str, int] | None, int | None]:
    if look.who.role in SEE_NO_REQUESTS:
        return None, None
    with suppress(redis_errors.RedisError, OSError):
        pools = await running_in(look.redis, look.settings, tenant_id)
        return pools, (await count_open(look.redis, [tenant_id]))[tenant_id]
    return None, None


async def _open(look: Look, ids: Sequence[str]) -> dict[str, int]:
    if look.who.role not in SEE_NO_REQUESTS:
        with suppress(redis_errors.RedisError, OSError):
            return await count_open(look.redis, ids)
    return {}


def _most_first(pools: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(
        ((pool, count) for pool, count in pools.items() if count), key=lambda each: (-each[1], each)
    )


OPERATIONS = (show_now, list_figures, list_needs)
