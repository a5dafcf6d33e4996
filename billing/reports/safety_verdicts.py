"""What safety policies found in a tenant's requests: verdicts by day, category, side and action. Reads only.

From the counts of ended requests (usage_event.safety_verdicts) and of refused prompts (refusal_minute), never
texts. A request counts on the day on which it ended: the tenant's days, of all tenants UTC's.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Integer, cast, func, literal, true, union_all
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import FIRST_MS, UTC_ZONE, Calendar, PeriodWindow
from billing.prices.calendars import calendar_in
from billing.tables.refusals import RefusalMinute
from billing.tables.tenants import HAS_VERDICTS, Tenant, UsageRow
from billing.usage import sided
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

DAYS_MAX = 400
DAYS_AT_ONCE = 50
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
        windows = last_days(calendar, days, now_ms)
        some = [windows[n : n + DAYS_AT_ONCE] for n in range(0, len(windows), DAYS_AT_ONCE)]
        return [day for each in some for day in await _days(session, whose, each)]


def last_days(calendar: Calendar, days: int, now_ms: int) -> list[PeriodWindow]:
    """The day of this instant and those before it, newest first. Pure."""
    found = [calendar.day_at(now_ms)]
    while len(found) < days and found[-1].start_ms > FIRST_MS:
        found.append(calendar.day_at(found[-1].start_ms - 1))
    return found


async def _days(
    session: AsyncSession, tenant_id: str | None, windows: Sequence[PeriodWindow]
) -> list[SafetyDay]:
    """Some days that follow each other, newest first, by three statements."""
    usage, refusals = _Days(UsageRow, "ended_ms", windows), _Days(RefusalMinute, "minute_ms", windows)
    blocked = func.count().filter(col(UsageRow.code) == BLOCKED)
    counted = usage.summed(tenant_id, (), func.count(), blocked)
    rows: Sequence[Any] = (await untyped(session).exec(counted)).all()
    requests: dict[int, tuple[int, int]] = {day: (number, stopped) for day, number, stopped in rows}
    found: list[list[VerdictCount]] = [[] for _ in windows]
    verdicts: Sequence[Any] = (await untyped(session).exec(_found(session, usage, tenant_id))).all()
    for day, category, action, *counts in verdicts:
        found[int(day)].append(VerdictCount(category, *sided(action), *counts))
    refused: list[list[RefusedPrompts]] = [[] for _ in windows]
    number = cast(func.sum(col(RefusalMinute.number)), BigInteger)
    statement = refusals.summed(tenant_id, (col(RefusalMinute.why),), number)
    statement = statement.where(col(RefusalMinute.code) == BLOCKED)
    prompted: Sequence[Any] = (await untyped(session).exec(statement)).all()
    for day, why, prompts in prompted:
        refused[int(day)].append(RefusedPrompts(why.partition(" ")[0], prompts))
    return [
        SafetyDay(window, *requests.get(day, (0, 0)), sorted(found[day]), sorted(refused[day]))
        for day, window in enumerate(windows)
    ]


class _Days:
    """Rows of a table by the day that they are of."""

    def __init__(
        self, table: type[UsageRow] | type[RefusalMinute], at: str, windows: Sequence[PeriodWindow]
    ) -> None:
        self._table = table
        time: Any = getattr(table, at)
        each = [
            select_columns(
                literal(day, Integer).label("day"),
                literal(window.start_ms, BigInteger).label("start_ms"),
                literal(window.end_ms, BigInteger).label("end_ms"),
            )
            for day, window in enumerate(windows)
        ]
        self.days = union_all(*each).cte("days")
        self.is_of = (time >= self.days.c.start_ms) & (time < self.days.c.end_ms)
        self._whole = (time >= windows[-1].start_ms, time < windows[0].end_ms)  # whatever the plan is

    def rows(self, tenant_id: str | None, *columns: Any) -> Any:
        """A SELECT of these of the day and its rows."""
        of = [] if tenant_id is None else [col(self._table.tenant_id) == tenant_id]
        return (
            select_columns(self.days.c.day, *columns)
            .join_from(self.days, self._table, self.is_of)
            .where(*of, *self._whole)
        )

    def summed(self, tenant_id: str | None, by: Sequence[Any], *sums: Any) -> Any:
        """The same, summed by day and these columns."""
        return self.rows(tenant_id, *by, *sums).group_by(self.days.c.day, *by)


def _found(session: AsyncSession, usage: _Days, tenant_id: str | None) -> Any:
    """Sums over the counts, which are JSON objects of objects."""
    of_texts = func.json_each if session.get_bind().dialect.name == "sqlite" else func.json_each_text
    categories = func.json_each(col(UsageRow.safety_verdicts)).table_valued("key", "value", name="categories")
    actions = of_texts(categories.c.value).table_valued("key", "value", name="actions")
    number = func.sum(cast(actions.c.value, BigInteger))
    by = (categories.c.key, actions.c.key)
    statement = usage.summed(tenant_id, by, cast(number, BigInteger), func.count()).where(HAS_VERDICTS)
    return statement.join(categories, true()).join(actions, true())
