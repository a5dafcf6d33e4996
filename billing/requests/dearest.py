"""Finds the dearest requests of a time and group, without sorting all of them.

The rollups say which keys used which models in which hours. The index `ix_usage_event_cost` has the dearest
request of each of these cells at its end. The first n requests are in the n cells whose dearest ones are the
dearest, so only those are read on: a look costs a step for each cell, however many requests they have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, literal, literal_column, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col, func

from billing.periods import HOUR_MS, PeriodWindow
from billing.reports.usage_pages import OF_HOURS
from billing.reports.usage_questions import Facet
from billing.tables.ledger import RollupHour, UsageLine
from billing.tables.tenants import ENDED_HOUR, UsageRow
from core.sql.database import Database

USERS_MAX = 20_000  # requests of a user that are read one by one: their index has no costs
COLUMNS = (
    *("request_id", "ended_ms", "user_id", "key_id", "model", "reason", "code", "input_uncached"),
    *("input_cached", "output_text", "output_reasoning", "cost_nano"),
)
EVENT_HOUR: Any = literal_column(ENDED_HOUR.replace("ended_ms", "usage_event.ended_ms"), BigInteger)
EVENT_AT: Any = literal_column(
    "+usage_event.ended_ms", BigInteger
)  # by the sign, SQLite takes no index of times
CELL_HOUR: Any = literal_column("cells.hour_ms / 3600000", BigInteger)
OF_EVENTS: dict[Facet, Any] = {
    Facet.PROJECT: UsageRow.project_id,
    Facet.USER: UsageRow.user_id,
    Facet.KEY: UsageRow.key_id,
    Facet.MODEL: UsageRow.model,
    Facet.POOL: UsageRow.pool,
}


@dataclass(frozen=True)
class DearestQuestion:
    """Which requests: those whose lines count in a time. `facet`, `of`: only this group's. `after_closed`:
    the time begins where a closed month ended: what came late for it counts there; `closed`: it lies in a
    closed month, so that not all that ended in it counts in it; `requests`: how many there are."""

    tenant_id: str
    window: PeriodWindow
    facet: Facet | None = None
    of: str = ""
    after_closed: bool = False
    closed: bool = False
    requests: int = 0


@dataclass(frozen=True)
class DearRequest:
    """A request. `amount_nano`: the sum of its lines that count in this time."""

    request: str
    ended_ms: int
    user_id: str
    key_id: str
    model: str
    reason: str
    code: str
    input_uncached: int
    input_cached: int
    output_text: int
    output_reasoning: int
    amount_nano: int


async def dearest(db: Database, question: DearestQuestion, most: int) -> list[DearRequest]:
    """Read those that cost most when they ended, the dearest first."""
    async with db.snapshot() as session:
        connection = await session.connection()
        if question.facet is Facet.USER and question.requests <= USERS_MAX:
            found = [*(await connection.execute(_of_user(question, most))).all()]
        else:
            cells = (await connection.execute(cells_of(question, most))).all()
            found = [*await _of_cells(connection, question, cells, most)]
        if question.after_closed:
            found += (await connection.execute(_late(question, most))).all()
        found = sorted(found, key=lambda row: (-row.cost_nano, row.request_id))[:most]
        amounts = await _amounts(connection, question, [row.request_id for row in found])
    return [_dear(row, amounts) for row in found]


def _dear(row: Any, amounts: Mapping[str, int]) -> DearRequest:
    facts: dict[str, Any] = {
        name: getattr(row, name) for name in COLUMNS if name not in ("request_id", "cost_nano")
    }
    return DearRequest(row.request_id, **facts, amount_nano=amounts.get(row.request_id, 0))


def columns() -> list[Any]:
    """What is read of a request."""
    return [getattr(UsageRow, name) for name in COLUMNS]


def cells_of(question: DearestQuestion, most: int) -> Any:
    """The (key, model, hour) whose dearest requests are the dearest."""
    window = question.window
    key, model, hour = (col(each) for each in (RollupHour.key_id, RollupHour.model, RollupHour.hour_ms))
    where = [
        col(RollupHour.tenant_id) == question.tenant_id,
        hour >= window.start_ms - window.start_ms % HOUR_MS,
        hour < window.end_ms,
    ]
    if question.facet is not None:
        where.append(OF_HOURS[question.facet] == question.of)
    cells = select(key, model, hour).where(*where, col(RollupHour.requests) > 0).distinct().subquery("cells")
    one = events_of(question, cells.c.key_id, cells.c.model, CELL_HOUR, UsageRow.cost_nano)
    cost: Any = one.limit(1).scalar_subquery().correlate(cells)
    return select(cells).order_by(func.coalesce(cost, -1).desc()).limit(most)


async def _of_cells(
    connection: AsyncConnection, question: DearestQuestion, cells: Sequence[Any], most: int
) -> Sequence[Any]:
    read = columns()
    parts = [
        select(events_of(question, key, model, literal(int(hour) // HOUR_MS), *read).limit(most).subquery())
        for key, model, hour in cells
    ]
    if not parts:
        return []
    rows = (union_all(*parts) if len(parts) > 1 else parts[0]).subquery()
    statement = select(rows).order_by(rows.c.cost_nano.desc(), rows.c.request_id).limit(most)
    return (await connection.execute(statement)).all()


def _of_user(question: DearestQuestion, most: int) -> Any:
    statement = select(*columns()).where(
        col(UsageRow.tenant_id) == question.tenant_id, *_counted(question, col(UsageRow.ended_ms))
    )
    return statement.order_by(col(UsageRow.cost_nano).desc(), col(UsageRow.request_id)).limit(most)


def events_of(question: DearestQuestion, key: Any, model: Any, hour: Any, *read: Any) -> Any:
    """A cell's requests, the dearest first, as the index has them."""
    statement = select(*read).where(
        col(UsageRow.tenant_id) == question.tenant_id,
        col(UsageRow.key_id) == key,
        col(UsageRow.model) == model,
        hour == EVENT_HOUR,
        *_counted(question, EVENT_AT),
    )
    return statement.order_by(col(UsageRow.cost_nano).desc())


def _counted(question: DearestQuestion, ended: Any) -> list[Any]:
    """Conditions for requests of the group that ended (`ended`: their time) in the time and count in it."""
    window = question.window
    where = [ended >= window.start_ms, ended < window.end_ms, *_of_group(question)]
    if question.closed:
        at: Any = _first_line(UsageLine.ended_ms)
        where += [at >= window.start_ms, at < window.end_ms]
    return where


def _of_group(question: DearestQuestion) -> list[Any]:
    if question.facet is None:
        return []
    if question.facet is Facet.COST_CENTER:  # of the time of the request
        return [_first_line(UsageLine.cost_center_id) == question.of]
    return [col(OF_EVENTS[question.facet]) == question.of]


def _first_line(column: Any) -> Any:
    """A fact of the line that stands for the request."""
    own = (
        col(UsageLine.tenant_id) == col(UsageRow.tenant_id),
        col(UsageLine.request_id) == col(UsageRow.request_id),
        col(UsageLine.number) == 0,
    )
    return select(column).where(*own).correlate(UsageRow).scalar_subquery()


def _late(question: DearestQuestion, most: int) -> Any:
    """Requests of closed months that came late: their lines count where the first open month begins."""
    statement = (
        select(*columns())
        .select_from(UsageLine)
        .join(
            UsageRow,
            (col(UsageRow.tenant_id) == col(UsageLine.tenant_id))
            & (col(UsageRow.request_id) == col(UsageLine.request_id)),
        )
        .where(
            col(UsageLine.tenant_id) == question.tenant_id,
            col(UsageLine.ended_ms) == question.window.start_ms,
            col(UsageLine.number) == 0,
            col(UsageRow.ended_ms) < question.window.start_ms,
            *_of_group(question),
        )
    )
    return statement.order_by(col(UsageRow.cost_nano).desc(), col(UsageRow.request_id)).limit(most)


async def _amounts(
    connection: AsyncConnection, question: DearestQuestion, ids: Sequence[str]
) -> dict[str, int]:
    """Sums of these requests' lines that count in the time."""
    statement: Any = select(col(UsageLine.request_id), func.sum(UsageLine.amount_nano)).where(
        col(UsageLine.tenant_id) == question.tenant_id,
        col(UsageLine.request_id).in_(ids),
        col(UsageLine.ended_ms) >= question.window.start_ms,
        col(UsageLine.ended_ms) < question.window.end_ms,
    )
    found: Any = (await connection.execute(statement.group_by(col(UsageLine.request_id)))).all()
    return {str(id): int(nano) for id, nano in found}
