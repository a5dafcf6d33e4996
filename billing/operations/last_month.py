"""What a dry run of a budget or limit tells of last month: whom it would have concerned."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import msgspec
from sqlmodel import col, select

from billing.limits import Dimension, Mode, Scope
from billing.periods import Period, PeriodWindow
from billing.reports.last_month import (
    LISTED,
    UNITS,
    Affected,
    AllAffected,
    CountedUsage,
    beyond_budget,
    beyond_rate,
    last_month,
    windows_in,
)
from billing.tables.ledger import RollupHour
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import Tenant
from billing.tenants.shown_names import key_names, project_names
from billing.tenants.users import known_users
from billing.unit_of_work.units import Change
from core.operations import MoneyAmount
from core.sql.database import Database

HOUR_MINUTES = 60
READS = "rollup_hour api_key project tenant_user"


class OneAffected(msgspec.Struct, frozen=True, kw_only=True):
    """One whom it would have concerned. `hours`: in how many hours they used then."""

    of: str
    name: str
    requests: int
    cost: MoneyAmount
    hours: int


class LastMonth(msgspec.Struct, frozen=True, kw_only=True):
    """Whom it would have concerned last month, by whole hours: of a budget whose requests would have got 402
    from the hour after the one in which it was reached; of a rate, who used in hours in which more came than
    `hour_lets_through`: minutes are not kept. `times`:
    in how many windows of a budget, or hours; `begins`: the first such hour; `by`: what `most` and the
    `others` are; the sums are of all."""

    month: str
    by: Scope
    begins: str | None
    times: int
    requests: int
    cost: MoneyAmount
    most: list[OneAffected]
    others: int
    hour_lets_through: int | None = None


async def month_of_budget(
    change: Change, tenant: Tenant, row: Budget, alike: Iterable[Budget]
) -> LastMonth | None:
    """What a budget, or what stands in its place, would have refused; None of one that refuses nothing, has
    no end, or had no such month. `alike`: the budgets that count the same scope."""
    zone = ZoneInfo(tenant.time_zone)
    month = _month(change, tenant, zone)
    refuses = row.hard and row.mode == Mode.ENFORCE and row.period != Period.LIFETIME
    if month is None or not refuses:
        return None
    usage = CountedUsage(tenant.tenant_id, Scope(row.scope), row.scope_id, _with_own(row, alike))
    windows = windows_in(Period(row.period), zone, month)
    limit = row.limit_nano if row.override_nano is None else row.override_nano
    found = await beyond_budget(change.db, usage, limit, windows, month)
    return await _told(change.db, usage, found, month, zone)


async def month_of_limit(
    change: Change, tenant: Tenant, row: QuotaPolicy, alike: Iterable[QuotaPolicy]
) -> LastMonth | None:
    """In which hours more came than a rate lets through; None of what is no rate."""
    zone = ZoneInfo(tenant.time_zone)
    month, dimension = _month(change, tenant, zone), Dimension(row.dimension)
    if month is None or dimension not in UNITS or row.mode != Mode.ENFORCE:
        return None
    models = await _models(change.db, tenant.tenant_id, row.model_glob, month)
    usage = CountedUsage(tenant.tenant_id, Scope(row.scope), row.scope_id, _with_own(row, alike), models)
    burst = row.limit_units if row.burst_units is None else row.burst_units
    most = row.limit_units * HOUR_MINUTES + burst if row.limit_units else 0
    found = await beyond_rate(change.db, usage, dimension, most, month)
    told = await _told(change.db, usage, found, month, zone)
    return msgspec.structs.replace(told, hour_lets_through=most)


def _month(change: Change, tenant: Tenant, zone: ZoneInfo) -> PeriodWindow | None:
    month = last_month(zone, change.now_ms())
    return None if tenant.created_ms >= month.end_ms else month


def _with_own(row: Budget | QuotaPolicy, alike: Iterable[Budget | QuotaPolicy]) -> list[str]:
    """Who has one of their own in the place of one for each."""
    mine = row.scope, row.mode, row.by_tenant, _counted(row)
    return [
        each.scope_id
        for each in alike
        if each.scope_id and (each.scope, each.mode, each.by_tenant, _counted(each)) == mine
    ]


def _counted(row: Budget | QuotaPolicy) -> tuple[str, ...]:
    return (row.period,) if isinstance(row, Budget) else (row.dimension, row.model_glob)


async def _models(db: Database, tenant_id: str, glob: str, month: PeriodWindow) -> Collection[str] | None:
    """Models of a month that a pattern means; None: all."""
    if glob == "*":
        return None
    used = select(col(RollupHour.model)).where(
        col(RollupHour.tenant_id) == tenant_id,
        col(RollupHour.hour_ms) >= month.start_ms,
        col(RollupHour.hour_ms) < month.end_ms,
    )
    async with db.session() as session:
        return [model for model in (await session.exec(used.distinct())).all() if fnmatchcase(model, glob)]


async def _told(
    db: Database, usage: CountedUsage, found: AllAffected, month: PeriodWindow, zone: ZoneInfo
) -> LastMonth:
    names = await _names(db, usage, [each.id for each in found.most])
    return LastMonth(
        month=_local(month.start_ms, zone)[: len("2026-10")],
        by=usage.named_by,
        begins=None if found.first_ms is None else _local(found.first_ms, zone),
        times=found.times,
        requests=found.requests,
        cost=MoneyAmount.of(found.nano),
        most=[_one(each, names) for each in found.most],
        others=max(0, found.number - LISTED),
    )


async def _names(db: Database, usage: CountedUsage, ids: list[str]) -> Mapping[str, str]:
    match usage.named_by:
        case Scope.KEY:
            return await key_names(db, usage.tenant_id, ids)
        case Scope.PROJECT:
            return await project_names(db, usage.tenant_id, ids)
        case Scope.USER:
            return await known_users(db, usage.tenant_id, ids)
        case _:
            return {}


def _one(each: Affected, names: Mapping[str, str]) -> OneAffected:
    name = names.get(each.id, each.id)
    return OneAffected(
        of=each.id, name=name, requests=each.requests, cost=MoneyAmount.of(each.nano), hours=each.hours
    )


def _local(unix_ms: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(unix_ms // 1000, zone).isoformat()
