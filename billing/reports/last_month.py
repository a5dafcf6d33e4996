"""What a limit or budget would have done last month, by the hours that the rollups have. Reads only.

An hour is that in which requests ended, and counts in the window in which it begins. Within an hour nothing
is known: a budget refuses from the hour after the one in which it is reached, and of a rate only hours are
told in which more came than it lets through in a whole one. Charges without a request (pools, tiers) count in
neither.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Integer, String, func, literal, literal_column, or_, select
from sqlmodel import col

from billing.limits import Dimension, Scope
from billing.periods import Period, PeriodWindow, window_at
from billing.tables.ledger import RollupHour
from billing.tables.tenants import ApiKey
from core.sql.database import Database

LISTED = 5
NAMED_AT_ONCE = 500  # owners whom a statement names; of more it reads all
FEW = (Scope.PROJECT, Scope.MODEL)  # so few that sums by the hour are far fewer than the rows of rollups
GPU_TIME = "GPU %"
NO_ONE: Any = literal_column("coalesce('', '')", String)  # a bare text would be no group
OWNERS: dict[Scope, Any] = {
    Scope.TENANT: NO_ONE,
    Scope.PROJECT: col(RollupHour.project_id),
    Scope.KEY: func.coalesce(ApiKey.owner_key, RollupHour.key_id),
    Scope.USER: col(RollupHour.user_id),
    Scope.MODEL: col(RollupHour.model),
}
INPUT = RollupHour.input_uncached + RollupHour.input_cached
OUTPUT = RollupHour.output_text + RollupHour.output_reasoning
UNITS: dict[Dimension, Any] = {
    Dimension.REQUESTS: RollupHour.requests,
    Dimension.INPUT: INPUT,
    Dimension.OUTPUT: OUTPUT,
    Dimension.TOKENS: INPUT + OUTPUT,
}


@dataclass(frozen=True)
class CountedUsage:
    """Whose usage counts: `scope_id` empty, each of a scope by itself but the `exempt`, who have one of their
    own. `models`: only these; None: all."""

    tenant_id: str
    scope: Scope
    scope_id: str = ""
    exempt: Collection[str] = ()
    models: Collection[str] | None = None

    @property
    def named_by(self) -> Scope:
        """Whom a report names: each who has it for itself, else the keys that share it."""
        return self.scope if self.is_each else Scope.KEY

    @property
    def is_each(self) -> bool:
        """True where each of a scope has it for itself."""
        return self.scope is not Scope.TENANT and not self.scope_id


class Affected(NamedTuple):
    """One whom it would have concerned, and in how many hours they used then."""

    id: str
    requests: int
    nano: int
    hours: int


class AllAffected(NamedTuple):
    """All of them: the `most` first, their number, and sums of all. `times`: in how many windows of a budget,
    or hours of a rate; `first_ms`: the first hour; None: nobody."""

    most: Sequence[Affected] = ()
    number: int = 0
    requests: int = 0
    nano: int = 0
    first_ms: int | None = None
    times: int = 0


def last_month(zone: ZoneInfo, at_ms: int) -> PeriodWindow:
    """The month before the one that an instant is in. Pure."""
    return window_at(Period.MONTH, zone, window_at(Period.MONTH, zone, at_ms).start_ms - 1)


def windows_in(period: Period, zone: ZoneInfo, month: PeriodWindow) -> list[PeriodWindow]:
    """The windows of a budget that a month touches, in order; its first week may begin before it. Pure."""
    found = [window_at(period, zone, month.start_ms)]
    while found[-1].end_ms < month.end_ms:
        found.append(window_at(period, zone, found[-1].end_ms))
    return found


def reached_in(
    hours: Sequence[tuple[int, int]], windows: Sequence[PeriodWindow], limit_nano: int
) -> list[PeriodWindow]:
    """The parts of windows after the hour in which a budget is reached. `hours`: each with what it cost, in
    order. Pure."""
    found: list[PeriodWindow] = []
    for window in windows:
        spent = 0
        for hour, nano in hours:
            if window.start_ms <= hour < window.end_ms:
                if spent >= limit_nano:
                    found.append(PeriodWindow(hour, window.end_ms))
                    break
                spent += nano
    return found


async def beyond_budget(
    db: Database, usage: CountedUsage, limit_nano: int, windows: Sequence[PeriodWindow], month: PeriodWindow
) -> AllAffected:
    """Who spent in this month after a budget of this amount was reached, by its windows."""
    within = PeriodWindow(windows[0].start_ms, month.end_ms)
    if usage.is_each:
        return await _each_beyond_budget(db, usage, limit_nano, windows, month)
    hour = col(RollupHour.hour_ms)
    sums = _hours(usage, within, hour, func.sum(col(RollupHour.amount_nano))).group_by(hour).order_by(hour)
    hours = [(int(at), int(nano)) for at, nano in await _rows(db, sums)]
    reached = [part for part in reached_in(hours, windows, limit_nano) if part.end_ms > month.start_ms]
    if not reached:
        return AllAffected()
    within = PeriodWindow(max(reached[0].start_ms, month.start_ms), month.end_ms)
    during = or_(*(hour.between(int(part.start_ms), int(part.end_ms) - 1) for part in reached))
    return await _largest(db, _by_who(usage, within, during), len(reached))


async def _each_beyond_budget(
    db: Database, usage: CountedUsage, limit_nano: int, windows: Sequence[PeriodWindow], month: PeriodWindow
) -> AllAffected:
    """The same of one that each has: whoever spends after theirs is reached is who is told. Running sums are
    only made of those whose whole sum reaches it in some window, where these are few."""
    owner, part, hour = OWNERS[usage.scope], _number_of(windows), col(RollupHour.hour_ms)
    within = PeriodWindow(windows[0].start_ms, month.end_ms)
    by_hour = usage.scope in FEW
    nano: Any = col(RollupHour.amount_nano)
    single: tuple[Any, Any] = (col(RollupHour.requests), nano.label("nano"))
    spent = _REQUESTS_AND_NANO if by_hour else single
    rows = _hours(usage, within, owner.label("who"), part.label("part"), hour.label("hour"), *spent)
    if by_hour:
        rows = rows.group_by(owner, part, hour)
    else:
        reaches = func.sum(col(RollupHour.amount_nano)) >= limit_nano
        whole = _hours(usage, within, owner).group_by(owner, part).having(reaches).distinct()
        reached = [who for (who,) in await _rows(db, whole.limit(NAMED_AT_ONCE + 1))]
        rows = rows if len(reached) > NAMED_AT_ONCE else rows.where(owner.in_(reached))
    each = rows.subquery("sums").c
    earlier = func.sum(each.nano).over(
        partition_by=(each.who, each.part), order_by=each.hour, range_=(None, -1)
    )
    facts = each.who, each.part, each.hour, each.requests, each.nano
    running = select(*facts, func.coalesce(earlier, 0).label("before")).subquery("running")
    found = running.c
    after = (found.before >= limit_nano) & (found.hour >= month.start_ms)
    sums = _sum(found.requests).label("requests"), _sum(found.nano).label("nano")
    hours, first = func.count(found.hour.distinct()).label("hours"), func.min(found.hour).label("first")
    beyond = select(found.who, found.part, *sums, hours, first).where(after).group_by(found.who, found.part)
    return await _largest_of_parts(db, beyond.cte("beyond"))


async def beyond_rate(
    db: Database, usage: CountedUsage, dimension: Dimension, most: int, month: PeriodWindow
) -> AllAffected:
    """Who used in hours of this month in which more than `most` units came."""
    owner, hour, units = OWNERS[usage.scope], col(RollupHour.hour_ms), func.sum(UNITS[dimension])
    if usage.is_each:
        one = literal_column("1", Integer).label("hours")
        named: list[Any] = [owner.label("who"), hour.label("part")]
        over = (
            _hours(usage, month, *named, *_REQUESTS_AND_NANO, one, hour.label("first"))
            .group_by(hour, owner)
            .having(units > most)
        )
        return await _largest_of_parts(db, over.cte("beyond"))
    found = await _rows(db, _hours(usage, month, hour).group_by(hour).having(units > most))
    if not found:
        return AllAffected()
    return await _largest(db, _by_who(usage, month, hour.in_([int(at) for (at,) in found])), len(found))


def _sum(column: Any) -> Any:
    """A sum that is a whole number of eight bytes on Postgres too, which sorts and keeps it faster."""
    return func.sum(column).cast(BigInteger)


_REQUESTS_AND_NANO: tuple[Any, Any] = (
    _sum(col(RollupHour.requests)).label("requests"),
    _sum(col(RollupHour.amount_nano)).label("nano"),
)


def _number_of(windows: Sequence[PeriodWindow]) -> Any:
    """The number of the window in which an hour begins; without parameters, so that it may be grouped by."""
    numbered = enumerate(windows[:-1])
    whens = "".join(f" WHEN rollup_hour.hour_ms < {int(each.end_ms)} THEN {at}" for at, each in numbered)
    last = len(windows) - 1
    return literal_column(f"CASE{whens} ELSE {last} END" if whens else "coalesce(0, 0)", Integer)


def _hours(usage: CountedUsage, within: PeriodWindow, *columns: Any, by_key: bool = False) -> Any:
    """Select of the hours whose usage counts. `by_key`: columns name owner keys."""
    statement = select(*columns).select_from(RollupHour)
    if by_key or usage.scope is Scope.KEY:
        chain = (col(ApiKey.tenant_id) == usage.tenant_id) & (col(ApiKey.id) == col(RollupHour.key_id))
        statement = statement.outerjoin(ApiKey, chain)
    statement = statement.where(
        col(RollupHour.tenant_id) == usage.tenant_id,
        col(RollupHour.hour_ms) >= within.start_ms,
        col(RollupHour.hour_ms) < within.end_ms,
        col(RollupHour.model).not_like(GPU_TIME),
        or_(col(RollupHour.key_id) != "", col(RollupHour.project_id) != ""),
    )
    if usage.models is not None:
        statement = statement.where(col(RollupHour.model).in_(sorted(usage.models)))
    if usage.scope is Scope.TENANT:
        return statement
    owner = OWNERS[usage.scope]
    if usage.scope_id:
        return statement.where(owner == usage.scope_id)
    return statement.where(owner != "", owner.not_in(sorted(usage.exempt)))


def _by_who(usage: CountedUsage, within: PeriodWindow, during: Any) -> Any:
    """Select of sums by key, of usage that shares one limit."""
    who, hour = OWNERS[usage.named_by], col(RollupHour.hour_ms)
    hours, first = func.count(hour.distinct()).label("hours"), func.min(hour).label("first")
    columns = who.label("who"), *_REQUESTS_AND_NANO, hours, first
    return _hours(usage, within, *columns, by_key=True).where(during).group_by(who)


async def _largest_of_parts(db: Database, beyond: Any) -> AllAffected:
    """Sums by owner, of windows or hours of theirs."""
    found = beyond.c
    sums = _sum(found.requests).label("requests"), _sum(found.nano).label("nano")
    hours, first = _sum(found.hours).label("hours"), func.min(found.first).label("first")
    parts = select(found.part).distinct().subquery("parts")  # a count of distinct ones would sort them
    times = select(func.count()).select_from(parts).scalar_subquery()
    return await _largest(db, select(found.who, *sums, hours, first).group_by(found.who), times)


async def _largest(db: Database, by_who: Any, times: Any) -> AllAffected:
    """The dearest first, and sums of all. `times`: a number, or the SQL of one."""
    each = by_who.subquery("each_of_them").c
    of_all = func.count(), func.sum(each.requests), func.sum(each.nano), func.min(each.first)
    counted = literal(times) if isinstance(times, int) else times
    statement = select(
        each.who, each.requests, each.nano, each.hours, *(one.over() for one in of_all), counted
    )
    largest = statement.order_by(each.nano.desc(), each.requests.desc(), each.who).limit(LISTED)
    rows = await _rows(db, largest)
    if not rows:
        return AllAffected()
    most = [Affected(str(id), *map(int, sums)) for id, *sums in (row[:4] for row in rows)]
    return AllAffected(most, *(int(each) for each in rows[0][4:]))


async def _rows(db: Database, statement: Any) -> Sequence[Any]:
    async with db.looking() as connection:
        return (await connection.execute(statement)).all()
