"""Who was refused in a time, and by whose limit: sums of the hours, named. For one tenant. Reads only.

Whole hours come from `refusal_hour`; where a zone's days begin within an hour, the edges come from minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.limits import WALLET, Dimension, Scope
from billing.periods import HOUR_MS, Period, PeriodWindow
from billing.requests.refusal_counts import OTHERS, Counts, RefusalCount, RefusalKey, add
from billing.requests.refusal_hours import LIMIT_STATUSES, hours_of
from billing.tables.limits import QuotaPolicy
from billing.tables.refusals import RefusalHour, RefusalMinute
from billing.tables.tenants import PLATFORM, ApiKey, Tenant
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

GROUPS_MAX = 5_000  # of a month; all further ones are in the sum
KEYS_AT_ONCE = 500


class WhoseLimit(StrEnum):
    """Who set a limit."""

    YOURS = "yours"
    PLAN = "plan"
    PLATFORM = "platform"


class AtLimit(NamedTuple):
    """What was at its limit. `scope` and `dimension` empty: not a tenant's limit; `id`: of the project, key
    (the first of its chain) or user, OTHERS: of several, empty: the tenant's own."""

    code: str
    scope: str
    dimension: str
    id: str


@dataclass(frozen=True)
class RefusedBy:
    """Refusals by one limit in a time."""

    limit: AtLimit
    number: int
    last_ms: int


@dataclass(frozen=True)
class RefusedSums:
    """Refusals by limits, most first, and the sum of all of them, also of such as are not listed."""

    by: list[RefusedBy]
    all: int


async def refused_in(db: Database, tenant_id: str, window: PeriodWindow) -> RefusedSums:
    """Refusals of a tenant by limits in a window, added up."""
    async with db.snapshot() as session:
        hours, edges = whole_hours_of(window)
        groups, total = await _of_hours(session, tenant_id, hours)
        for edge in edges:
            of_edge = await _of_minutes(session, tenant_id, edge)
            groups += of_edge
            total += sum(number for *_, number, _ in of_edge)
        owners = await _key_owners(session, tenant_id, {key for _, _, key, *_ in groups})
    return RefusedSums(summed(groups, owners), total)


def whole_hours_of(window: PeriodWindow) -> tuple[PeriodWindow, list[PeriodWindow]]:
    """The whole hours of a window, empty where it holds none, and what it has beside them. Pure."""
    first = -(-window.start_ms // HOUR_MS) * HOUR_MS
    hours = PeriodWindow(first, max(first, window.end_ms // HOUR_MS * HOUR_MS))
    if hours.start_ms == hours.end_ms:
        return hours, [window]
    beside = (PeriodWindow(window.start_ms, hours.start_ms), PeriodWindow(hours.end_ms, window.end_ms))
    return hours, [each for each in beside if each.start_ms < each.end_ms]


Group = tuple[str, str, str, str, int, int]  # code, why, key, user, number, last minute


def summed(groups: Iterable[Group], owners: Mapping[str, tuple[str, str]]) -> list[RefusedBy]:
    """Groups by what was at its limit, most refusals first. `owners`: of a key the first of its chain, and
    its project. Pure."""
    found: dict[AtLimit, RefusedBy] = {}
    for code, why, key, user, number, last_ms in groups:
        scope, _, dimension = why.partition(" ")
        chain, project = owners.get(key, (key, OTHERS if key == OTHERS else ""))
        ids: dict[str, str] = {Scope.KEY: chain, Scope.PROJECT: project, Scope.USER: user}
        id = ids.get(scope, "")
        limit = AtLimit(code, scope, dimension, id)
        known = found.get(limit, RefusedBy(limit, 0, 0))
        found[limit] = replace(known, number=known.number + number, last_ms=max(known.last_ms, last_ms))
    return sorted(found.values(), key=lambda each: (-each.number, each.limit))


async def _of_hours(session: AsyncSession, tenant_id: str, hours: PeriodWindow) -> tuple[list[Group], int]:
    columns = [col(getattr(RefusalHour, name)) for name in ("code", "why", "key_id", "user_id")]
    number = func.sum(col(RefusalHour.number))
    own = (
        col(RefusalHour.tenant_id) == tenant_id,
        col(RefusalHour.hour_ms) >= hours.start_ms,
        col(RefusalHour.hour_ms) < hours.end_ms,
    )
    statement = (
        select_columns(*columns, number, func.max(col(RefusalHour.last_ms)))
        .where(*own)
        .group_by(*columns)
        .order_by(number.desc(), *columns)
        .limit(GROUPS_MAX)
    )
    groups: list[Group] = [
        (code, why, key, user, int(of), int(last))
        for code, why, key, user, of, last in (await untyped(session).exec(statement)).all()
    ]
    if len(groups) < GROUPS_MAX:
        return groups, sum(each[4] for each in groups)
    everything = (await untyped(session).exec(select_columns(number).where(*own))).one()
    return groups, int(everything[0] or 0)


async def _of_minutes(session: AsyncSession, tenant_id: str, edge: PeriodWindow) -> list[Group]:
    """Of less than an hour: few rows."""
    statement = select(RefusalMinute).where(
        col(RefusalMinute.tenant_id) == tenant_id,
        col(RefusalMinute.minute_ms) >= edge.start_ms,
        col(RefusalMinute.minute_ms) < edge.end_ms,
        col(RefusalMinute.code).in_(sorted(LIMIT_STATUSES)),
    )
    counts: Counts = {}
    for row in (await session.exec(statement)).all():
        of = RefusalKey(tenant_id, row.minute_ms, row.key_id, row.user_id, row.code)
        add(counts, of, RefusalCount(row.number, row.why))
    return [
        (of.code, of.why, of.key_id, of.user_id, count.number, count.last_ms)
        for of, count in hours_of(counts).items()
    ]


async def _key_owners(
    session: AsyncSession, tenant_id: str, keys: Iterable[str]
) -> dict[str, tuple[str, str]]:
    wanted, found = sorted({*keys} - {"", OTHERS}), dict[str, tuple[str, str]]()
    for at in range(0, len(wanted), KEYS_AT_ONCE):
        statement = select(ApiKey.id, ApiKey.owner_key, ApiKey.project_id).where(
            col(ApiKey.tenant_id) == tenant_id, col(ApiKey.id).in_(wanted[at : at + KEYS_AT_ONCE])
        )
        found |= {id: (owner, project) for id, owner, project in (await session.exec(statement)).all()}
    return found


async def rate_limits_of(db: Database, tenant: Tenant) -> Sequence[QuotaPolicy]:
    """Limits on rates of a tenant and of its plan, open and ended."""
    own, of_plan = col(QuotaPolicy.tenant_id) == tenant.tenant_id, col(QuotaPolicy.tenant_id) == PLATFORM
    plan = of_plan & (col(QuotaPolicy.plan_id) == (tenant.plan_id or ""))
    async with db.session() as session:
        return (await session.exec(select(QuotaPolicy).where(or_(own, plan)))).all()


def whose(refused: RefusedBy, policies: Iterable[QuotaPolicy]) -> WhoseLimit:
    """Whose limit it was, by the limits of the tenant and of its plan. Pure."""
    limit = refused.limit
    if not limit.scope:
        return WhoseLimit.PLATFORM
    if limit.dimension not in set(Dimension):
        return WhoseLimit.YOURS  # a budget, or the wallet
    held = [
        row
        for row in policies
        if (row.scope, row.dimension) == (limit.scope, limit.dimension)
        and row.scope_id in ("", limit.id)
        and row.created_ms < refused.last_ms + 60_000
        and (row.ended_ms is None or row.ended_ms >= refused.last_ms)
    ]
    own = [row for row in held if row.tenant_id != PLATFORM]
    return WhoseLimit.YOURS if own or not held else WhoseLimit.PLAN


DIMENSION_WORDS: dict[str, str] = {
    Dimension.REQUESTS: "Requests a minute",
    Dimension.INPUT: "Input tokens a minute",
    Dimension.OUTPUT: "Output tokens a minute",
    Dimension.TOKENS: "Tokens a minute",
    Dimension.CONCURRENCY: "Requests at once",
    Period.DAY: "Budget of a day",
    Period.WEEK: "Budget of a week",
    Period.MONTH: "Budget",
    Period.LIFETIME: "Budget in all",
}
OF_NO_LIMIT = {"overloaded": "No room in a pool in time", "account_suspended": "The account is closed"}
MANY: dict[str, str] = {
    Scope.KEY: "further keys",
    Scope.PROJECT: "several projects",
    Scope.USER: "further users",
}


def limit_words(limit: AtLimit, tenant: str, name: str) -> str:
    """A limit as people say it: “Budget of key lab evals”. `name`: of its project, key or user. Pure."""
    if limit.dimension == WALLET:
        return "Prepaid credit"
    what = DIMENSION_WORDS.get(limit.dimension, "")
    if not limit.scope or not what:
        return OF_NO_LIMIT.get(limit.code, "A limit")
    if limit.scope == Scope.TENANT:
        return f"{what} of {tenant}"
    if limit.scope == Scope.MODEL:
        return f"{what} of a model"
    if limit.id == OTHERS:
        return f"{what} of {MANY[limit.scope]}"
    return f"{what} of {limit.scope} {name or limit.id or 'unknown'}"
