"""Refusals by limits, by the hour: what was at its limit, and whose count that was. Kept longer than minutes,
in few rows, so that a month is added up at once.

A limit on keys or projects is counted by key, one on users by user; beyond COUNTED_MAX of them in an hour all
further ones share a row. What is refused for what it asks (a bad request) is in the minutes alone.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.limits import WALLET, Dimension, Scope
from billing.periods import HOUR_MS, Period
from billing.requests.refusal_counts import EVERYBODY, OTHERS, Counts
from billing.tables.refusals import RefusalHour
from core.sql.database import insert_of

COUNTED_MAX = 100  # keys and users with rows of their own in an hour of a tenant
LIMIT_STATUSES = {
    "insufficient_quota": 402,
    "budget_exceeded": 402,
    "account_suspended": 402,
    "rate_limited": 429,
    "overloaded": 503,
}
"""Codes of refusals by limits, with the HTTP status of each (a test compares it with the gateway's)."""
LIMITED = frozenset({*Dimension, *Period, WALLET})


class HourKey(NamedTuple):
    """What refused, in which hour; the key or the user whose count was at its limit, else empty."""

    tenant_id: str
    hour_ms: int
    code: str
    why: str
    key_id: str
    user_id: str


class HourCount(msgspec.Struct, frozen=True):
    """Number of refusals, and the minute of the last."""

    number: int
    last_ms: int


HourCounts = dict[HourKey, HourCount]


def hours_of(counts: Counts) -> HourCounts:
    """Counts of minutes, by the hour. Pure."""
    found: HourCounts = {}
    for of, count in counts.items():
        if of.code in LIMIT_STATUSES and of.tenant != EVERYBODY:
            scope, _, dimension = count.why.partition(" ")
            known = scope in set(Scope) and dimension in LIMITED
            key = of.key if known and scope in (Scope.KEY, Scope.PROJECT) else ""
            user = of.user if known and scope == Scope.USER else ""
            hour = of.minute_ms - of.minute_ms % HOUR_MS
            _add(
                found,
                HourKey(of.tenant, hour, of.code, count.why if known else "", key, user),
                HourCount(count.number, of.minute_ms),
            )
    return found


def folded(new: HourCounts, known: Collection[HourKey], most: int = COUNTED_MAX) -> HourCounts:
    """The new counts of one tenant's hour, so that with the known ones at most so many have a key or a user.
    Pure."""
    room = most - sum(bool(each.key_id or each.user_id) for each in known)
    found: HourCounts = {}
    for of, count in sorted(new.items(), key=lambda each: (-each[1].number, each[0])):
        own = bool(of.key_id or of.user_id)
        if own and of not in known and room <= 0:
            of = of._replace(key_id=OTHERS if of.key_id else "", user_id=OTHERS if of.user_id else "")
        elif own and of not in known:
            room -= 1
        _add(found, of, count)
    return found


def _add(counts: HourCounts, of: HourKey, more: HourCount) -> None:
    known = counts.get(of, HourCount(0, 0))
    counts[of] = HourCount(known.number + more.number, max(known.last_ms, more.last_ms))


async def add_hours(session: AsyncSession, counts: Counts) -> None:
    """Add new counts of minutes to their hours, in the caller's transaction."""
    new = hours_of(counts)
    for tenant, hour in sorted({(of.tenant_id, of.hour_ms) for of in new}):
        own = {of: count for of, count in new.items() if (of.tenant_id, of.hour_ms) == (tenant, hour)}
        statement = select(RefusalHour).where(
            col(RefusalHour.tenant_id) == tenant, col(RefusalHour.hour_ms) == hour
        )
        known = {
            HourKey(*(getattr(row, name) for name in HourKey._fields))
            for row in (await session.exec(statement)).all()
        }
        await _write(session, folded(own, known))


async def _write(session: AsyncSession, counts: HourCounts) -> None:
    connection = await session.connection()
    table: Any = getattr(RefusalHour, "__table__")  # noqa: B009  (SQLModel does not type it)
    statement = insert_of(connection.dialect.name, table)
    new = statement.excluded
    later = func.max if connection.dialect.name == "sqlite" else func.greatest
    statement = statement.on_conflict_do_update(
        index_elements=list(HourKey._fields),
        set_={"number": table.c.number + new.number, "last_ms": later(table.c.last_ms, new.last_ms)},
    )
    rows = [of._asdict() | msgspec.structs.asdict(counts[of]) for of in sorted(counts)]
    await connection.execute(statement, rows)
