"""What safety policies found in a tenant's requests: verdicts by day, category, side and action. Reads only.

From the counts of ended requests (usage_event.safety_verdicts) and of refused prompts (refusal_minute), never
texts. A request counts on the day on which it ended: the tenant's days, of all tenants UTC's.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, cast, func, true
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import FIRST_MS, UTC_ZONE, Calendar, PeriodWindow
from billing.prices.calendars import calendar_in
from billing.tables.refusals import RefusalMinute
from billing.tables.tenants import Tenant, UsageRow
from billing.usage import sided
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

DAYS_MAX = 400
BLOCKED = "safety_blocked"


class VerdictCount(msgspec.Struct, frozen=True, order=True):
    """Verdicts of one kind: how many there were, and in how many requests. `of`: "answer" or "prompt"."""

    category: str
    of: str
    action: str
    verdicts: int
    requests: int


class RefusedPrompts(msgspec.Struct, frozen=True, order=True):
    """Prompts that were refused. Of one key's and user's in a minute the latest one's category is known, so
    they count under that."""

    category: str
    prompts: int


class SafetyDay(msgspec.Struct, frozen=True):
    """One day: all requests that ended, those among them that safety ended, what was found in them, and the
    prompts that never became requests."""

    window: PeriodWindow
    requests: int
    blocked: int
    found: list[VerdictCount]
    refused: list[RefusedPrompts]


async def verdicts_by_day(db: Database, tenant: Tenant | None, days: int, now_ms: int) -> list[SafetyDay]:
    """The last `days` days with today, newest first; some short statements each, all of one state of the
    database. `tenant` None, for operators: of all tenants."""
    assert 0 < days <= DAYS_MAX, "the days are bounded"
    async with db.snapshot() as session:
        calendar = Calendar(UTC_ZONE) if tenant is None else await calendar_in(session, tenant)
        whose = None if tenant is None else tenant.tenant_id
        return [await _day(session, whose, window) for window in last_days(calendar, days, now_ms)]


def last_days(calendar: Calendar, days: int, now_ms: int) -> list[PeriodWindow]:
    """The day of this instant and those before it, newest first. Pure."""
    found = [calendar.day_at(now_ms)]
    while len(found) < days and found[-1].start_ms > FIRST_MS:
        found.append(calendar.day_at(found[-1].start_ms - 1))
    return found


async def _day(session: AsyncSession, tenant_id: str | None, window: PeriodWindow) -> SafetyDay:
    ended = _conditions(UsageRow, "ended_ms", tenant_id, window)
    blocked = func.count().filter(col(UsageRow.code) == BLOCKED)
    counted = select_columns(func.count(), blocked).select_from(UsageRow).where(*ended)
    requests, stopped = (await untyped(session).exec(counted)).one()
    rows: Sequence[Any] = (await untyped(session).exec(_found(session).where(*ended))).all()
    found = sorted(VerdictCount(category, *sided(action), *counts) for category, action, *counts in rows)
    return SafetyDay(window, requests, stopped, found, await _refused(session, tenant_id, window))


async def _refused(
    session: AsyncSession, tenant_id: str | None, window: PeriodWindow
) -> list[RefusedPrompts]:
    number = cast(func.sum(col(RefusalMinute.number)), BigInteger)
    of = _conditions(RefusalMinute, "minute_ms", tenant_id, window)
    statement = select_columns(col(RefusalMinute.why), number).where(*of, col(RefusalMinute.code) == BLOCKED)
    rows: Sequence[Any] = (await untyped(session).exec(statement.group_by(col(RefusalMinute.why)))).all()
    return sorted(RefusedPrompts(why.partition(" ")[0], prompts) for why, prompts in rows)


def _conditions(
    table: type[UsageRow] | type[RefusalMinute], at: str, tenant_id: str | None, window: PeriodWindow
) -> list[Any]:
    time: Any = getattr(table, at)
    of = [] if tenant_id is None else [col(table.tenant_id) == tenant_id]
    return [*of, time >= window.start_ms, time < window.end_ms]


def _found(session: AsyncSession) -> Any:
    """Sums over the counts, which are JSON objects of objects."""
    of_texts = func.json_each if session.get_bind().dialect.name == "sqlite" else func.json_each_text
    categories = func.json_each(col(UsageRow.safety_verdicts)).table_valued("key", "value", name="categories")
    actions = of_texts(categories.c.value).table_valued("key", "value", name="actions")
    number = func.sum(cast(actions.c.value, BigInteger))
    by = (categories.c.key, actions.c.key)
    statement = select_columns(*by, cast(number, BigInteger), func.count()).select_from(UsageRow)
    return statement.join(categories, true()).join(actions, true()).group_by(*by)
