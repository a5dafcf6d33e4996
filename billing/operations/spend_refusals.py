"""The operation that shows who was refused in a month, and by whose limit."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.limits import Scope
from billing.operations.known_times import known_month
from billing.operations.shared_fields import NameTenant
from billing.periods import Calendar, PeriodWindow, month_text
from billing.prices.calendars import calendar_of
from billing.reports.usage_report import GroupBy, usage_in
from billing.requests.refusal_hours import LIMIT_STATUSES
from billing.requests.refused_by import (
    AtLimit,
    RefusedBy,
    WhoseLimit,
    limit_words,
    rate_limits_of,
    refused_in,
    whose,
)
from billing.tenants.shown_names import key_names, project_names, users_named
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import PAYERS, STAFF, Uses, operation

LIMITS_LISTED, LIMITS_MAX = 20, 200
GPU = "GPU "  # how models of hours of GPUs begin, which are no requests


class AskRefusals(NameTenant, frozen=True, kw_only=True):
    """Which month."""

    month: Annotated[
        str | None, Meta(description="As 2026-10, in the tenant's time zone; by default this one.")
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=LIMITS_MAX, description="How many limits at most; the others are one sum.")
    ] = LIMITS_LISTED


class LimitRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """Refusals by one limit. `status`: as over HTTP; `limit`: in words; `scope`, `of`: the project, key or
    user whose count was at it, empty where it is no one's; `last`: the minute of the last one."""

    status: int
    code: str
    limit: str
    whose: WhoseLimit
    scope: str
    dimension: str
    of: str
    refused: int
    last: str | None


class MonthRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """Refusals of a month by limits, most first. `requests`: those that were sent, refused ones too;
    `others`: refusals by the `more` limits that are not listed."""

    tenant: str
    month: str
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    time_zone: str
    requests: int
    refused: int
    limits: list[LimitRefusals]
    more: int
    others: int


@operation(
    "spend.refusals",
    "GET /tenants/{tenant}/spend/refusals",
    may=STAFF | PAYERS,
    uses=Uses(
        reads="tenant project api_key tenant_user period_close rollup_hour usage_line usage_event charge "
        "refusal_hour refusal_minute quota_policy"
    ),
)
async def show_refusals(look: Look, ask: AskRefusals) -> MonthRefusals:
    """Show who was refused in a month, and by whose limit. A refused request costs nothing."""
    owner = await look.tenant(ask.tenant)
    calendar = await calendar_of(look.db, owner)
    window = await known_month(look, owner, calendar, ask.month)
    found = await refused_in(look.db, owner.tenant_id, window)
    listed = found.by[: ask.limit]
    policies = await rate_limits_of(look.db, owner)
    names = await _names(look, owner.tenant_id, (each.limit for each in listed))
    ended = await requests_ended(look, owner.tenant_id, window, calendar)
    return MonthRefusals(
        tenant=owner.tenant_id,
        month=month_text(calendar.month_at(window.start_ms)),
        start=iso_time(window.start_ms),
        end=iso_time(window.end_ms),
        time_zone=str(calendar.zone_of(calendar.month_at(window.start_ms))),
        requests=ended + found.all,
        refused=found.all,
        limits=[_facts(each, whose(each, policies), owner.name, names) for each in listed],
        more=len(found.by) - len(listed),
        others=found.all - sum(each.number for each in listed),
    )


async def requests_ended(look: Look, tenant_id: str, window: PeriodWindow, calendar: Calendar) -> int:
    """Requests of a window that ended."""
    by_model = await usage_in(look.db, tenant_id, window, GroupBy.MODEL, calendar)
    return sum(each.requests for each in by_model if not each.group.startswith(GPU))


async def _names(look: Look, tenant_id: str, limits: Iterable[AtLimit]) -> Mapping[tuple[str, str], str]:
    """Names by scope and id."""
    ids: dict[str, set[str]] = {}
    for each in limits:
        ids.setdefault(each.scope, set()).add(each.id)
    of_keys = await key_names(look.db, tenant_id, ids.get(Scope.KEY, ()))
    of_projects = await project_names(look.db, tenant_id, ids.get(Scope.PROJECT, ()))
    of_users = await users_named(look.db, ((tenant_id, id) for id in ids.get(Scope.USER, ())))
    return {
        **{(Scope.KEY, id): name for id, name in of_keys.items()},
        **{(Scope.PROJECT, id): name for id, name in of_projects.items()},
        **{(Scope.USER, id): name for (_, id), name in of_users.items()},
    }


def _facts(
    each: RefusedBy, of: WhoseLimit, tenant: str, names: Mapping[tuple[str, str], str]
) -> LimitRefusals:
    limit = each.limit
    return LimitRefusals(
        status=LIMIT_STATUSES[limit.code],
        code=limit.code,
        limit=limit_words(limit, tenant, names.get((limit.scope, limit.id), "")),
        whose=of,
        scope=limit.scope,
        dimension=limit.dimension,
        of=limit.id,
        refused=each.number,
        last=iso_time(each.last_ms),
    )


OPERATIONS = (show_refusals,)
