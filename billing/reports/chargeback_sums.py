"""Reads the sums of a chargeback report: whole hours from the rollups, what those lack from the lines.

As of an earlier time the books are those up to the last line that was posted by then. Hours that begin later
hold almost nothing of it, so that is added up from the lines; of earlier hours what came later is taken off.
Many values are folded by the database: never are all of a million read.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import String, case, func, literal, literal_column, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from billing.periods import HOUR_MS, PeriodWindow
from billing.reports.chargeback import (
    LAST,
    NOBODY,
    OTHER,
    TIERS,
    ChargebackQuestion,
    CostMatrix,
    Fact,
    Named,
    TagFact,
    matrix_of,
    named,
)
from billing.reports.period_sums import TRUE_UP
from billing.reports.tag_values import value_of_lines, value_of_sums
from billing.reports.usage_pages import OF_HOURS, OF_LINES
from billing.reports.usage_questions import Facet
from billing.reports.usage_report import edges_of, inner_hours, with_owners
from billing.tables.ledger import LedgerHead, RollupHour, RollupTag, UsageLine
from billing.tables.prices import Charge
from core.sql.database import Database

WITHOUT: Any = literal_column("coalesce('', '')", String)  # a bare text would be no group
GROUPS_MAX = 5_000  # read at once, and folded here
SECONDS_MAX = 20.0


async def read_matrix(db: Database, question: ChargebackQuestion) -> CostMatrix:
    """Sums by row and column. Raises DBAPIError (`is_out_of_time`) where it takes longer than SECONDS_MAX."""
    async with db.short_snapshot(SECONDS_MAX) as session:
        connection = await session.connection()
        head = await session.get(LedgerHead, question.tenant_id) or LedgerHead(tenant_id=question.tenant_id)
        until = head.line_seq
        if question.known_ms is not None:
            until = await line_known_at(connection, question.tenant_id, head.line_seq, question.known_ms)
        parts = union_all(*_parts(question, until, head.rolled_seq, db.dialect)).subquery("parts")
        return await _matrix(connection, question, parts)


async def line_known_at(connection: AsyncConnection, tenant_id: str, last: int, known_ms: int) -> int:
    """The last line that was posted by a time, by halves: lines are posted one after the other."""
    first = 0
    while first < last:
        middle = (first + last + 1) // 2
        statement = select(col(UsageLine.posted_ms)).where(
            col(UsageLine.tenant_id) == tenant_id, col(UsageLine.seq) == middle
        )
        if int((await connection.execute(statement)).scalar_one()) <= known_ms:
            first = middle
        else:
            last = middle - 1
    return first


async def _matrix(connection: AsyncConnection, question: ChargebackQuestion, parts: Any) -> CostMatrix:
    cells = await _cells(connection, parts, parts.c.row, parts.c.column, GROUPS_MAX + 1)
    if len(cells) <= GROUPS_MAX:
        rows, columns = named(_by(cells, 0), question.rows_max), named(_by(cells, 1), question.columns_max)
        return matrix_of(cells, rows, columns)
    rows = await _named(connection, parts, parts.c.row, question.rows_max)
    columns = await _named(connection, parts, parts.c.column, question.columns_max)
    folded = (_folded(parts.c.row, rows), _folded(parts.c.column, columns))
    return matrix_of(await _cells(connection, parts, *folded, None), rows, columns)


async def _cells(
    connection: AsyncConnection, parts: Any, row: Any, column: Any, most: int | None
) -> dict[tuple[str, str], int]:
    """Sums by both, at most so many."""
    inner = select(row.label("row"), column.label("column"), parts.c.nano).select_from(parts).subquery()
    statement = select(inner.c.row, inner.c.column, func.sum(inner.c.nano)).group_by(
        inner.c.row, inner.c.column
    )
    found = (await connection.execute(statement.limit(most))).all()
    return {(row, column): int(nano or 0) for row, column, nano in found}


def _by(cells: dict[tuple[str, str], int], which: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for key, nano in cells.items():
        sums[key[which]] = sums.get(key[which], 0) + nano
    return sums


async def _named(connection: AsyncConnection, parts: Any, value: Any, most: int) -> Named:
    """The largest values of one side, and how many more there are."""
    size = func.abs(func.sum(parts.c.nano))
    ordered = (
        select(value, func.count().over())
        .select_from(parts)
        .where(value.not_in(LAST))
        .group_by(value)
        .order_by(size.desc(), value)
        .limit(most)
    )
    found = (await connection.execute(ordered)).all()
    return Named([row[0] for row in found], max(0, int(found[0][1]) - most) if found else 0)


def _folded(value: Any, listed: Named) -> Any:
    kept = [*listed.values, *LAST]
    return case((value.in_(kept), value), else_=literal(OTHER))


def _parts(question: ChargebackQuestion, until: int, rolled: int, dialect: str) -> list[Any]:
    """Selects of (row, column, nano) to add up."""
    inner = inner_hours(question.window)
    seq, ended = col(UsageLine.seq), col(UsageLine.ended_ms)
    lines = _Lines(question, dialect)
    cut = inner.end_ms
    if question.known_ms is not None and until < rolled:
        hour = question.known_ms - question.known_ms % HOUR_MS
        cut = min(max(inner.start_ms, hour), inner.end_ms)
    parts = _of_hours(question, PeriodWindow(inner.start_ms, cut), dialect)
    parts += [lines.sums(1, *_in(edge), seq <= until) for edge in edges_of(question.window)]
    if cut < inner.end_ms:
        parts.append(lines.sums(1, *_in(PeriodWindow(cut, inner.end_ms)), seq <= until))
    if rolled != until:
        sign = 1 if until > rolled else -1
        between = (seq > min(rolled, until), seq <= max(rolled, until))
        parts.append(lines.sums(sign, ended >= inner.start_ms, ended < cut, *between))
    if Facet.MODEL in (question.rows, question.columns) and question.only is None:
        parts += _tiers(question, until)
    return parts


def _in(window: PeriodWindow) -> tuple[Any, Any]:
    return col(UsageLine.ended_ms) >= window.start_ms, col(UsageLine.ended_ms) < window.end_ms


def _of_hours(question: ChargebackQuestion, hours: PeriodWindow, dialect: str) -> list[Any]:
    """Sums of whole hours. Of tags: tagged usage by its value, and all usage but the tagged as without."""
    if not question.by_tags:
        return [_hours_of(RollupHour, question, hours, _fact_of_hours)]
    tagged = _hours_of(RollupTag, question, hours, partial(_fact_of_tagged, dialect))
    if question.only is not None:
        return [tagged.where(_has(question, value_of_sums(question.only.key, dialect)))]
    untagged = partial(_fact_of_tagged, None)
    return [
        tagged,
        _hours_of(RollupHour, question, hours, _fact_of_hours),
        _hours_of(RollupTag, question, hours, untagged, -1),
    ]


def _hours_of(
    table: type[RollupHour | RollupTag],
    question: ChargebackQuestion,
    hours: PeriodWindow,
    fact_of: Callable[[Fact], Any],
    sign: int = 1,
) -> Any:
    row, column = fact_of(question.rows), fact_of(question.columns)
    nano = (sign * func.sum(col(table.amount_nano))).label("nano")
    statement = select(*_groups(row, column), nano).where(
        col(table.tenant_id) == question.tenant_id,
        col(table.hour_ms) >= hours.start_ms,
        col(table.hour_ms) < hours.end_ms,
    )
    return statement.group_by(*_distinct(row, column))


def _fact_of_hours(fact: Fact) -> Any:
    return WITHOUT if isinstance(fact, TagFact) else OF_HOURS[fact]


def _fact_of_tagged(dialect: str | None, fact: Fact) -> Any:
    """Of the sums by tags. `dialect` None: as if they had none."""
    if not isinstance(fact, TagFact):
        return getattr(RollupTag, OF_HOURS[fact].key)
    return WITHOUT if dialect is None else value_of_sums(fact.key, dialect)


def _has(question: ChargebackQuestion, value: Any) -> Any:
    return value == question.only_value if question.only_value else value != NOBODY


class _Lines:
    """Selects of sums of lines, each with its request or charge."""

    def __init__(self, question: ChargebackQuestion, dialect: str) -> None:
        self._question = question
        self._dialect = dialect

    def sums(self, sign: int, *where: Any) -> Any:
        """Sums of these lines, with this sign."""
        question = self._question
        row, column = self._fact(question.rows), self._fact(question.columns)
        nano = (sign * func.sum(UsageLine.amount_nano)).label("nano")
        statement = with_owners(select(*_groups(row, column), nano)).where(
            col(UsageLine.tenant_id) == question.tenant_id, *where
        )
        if question.only is not None:
            statement = statement.where(_has(question, self._fact(question.only)))
        return statement.group_by(*_distinct(row, column))

    def _fact(self, fact: Fact) -> Any:
        if isinstance(fact, TagFact):
            return value_of_lines(fact.key, self._question.spans, self._dialect)
        return OF_LINES[fact]


def _tiers(question: ChargebackQuestion, until: int) -> list[Any]:
    """What a month's close booked, from its model to TIERS."""
    found: list[Any] = []
    same = (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (col(Charge.id) == col(UsageLine.request_id))
    for sign in (1, -1):
        row, column = (_of_charge(facet, sign > 0) for facet in (question.rows, question.columns))
        statement = (
            select(
                row.label("row"), column.label("column"), (sign * col(UsageLine.amount_nano)).label("nano")
            )
            .select_from(Charge)
            .join(UsageLine, same)
            .where(
                col(Charge.tenant_id) == question.tenant_id,
                col(Charge.kind) == TRUE_UP,
                col(UsageLine.tenant_id) == question.tenant_id,
                col(UsageLine.seq) <= until,
                *_in(question.window),
            )
        )
        found.append(statement)
    return found


def _of_charge(facet: Fact, as_tiers: bool) -> Any:
    match facet:
        case TagFact():
            return WITHOUT
        case Facet.MODEL if as_tiers:
            return literal(TIERS)
        case Facet.COST_CENTER:
            return col(UsageLine.cost_center_id)
        case Facet.PROJECT:
            return col(Charge.project_id)
        case Facet.USER:
            return col(Charge.user_id)
        case Facet.KEY:
            return col(Charge.key_id)
        case Facet.POOL:
            return col(Charge.pool)
        case _:
            return col(Charge.model)


def _groups(row: Any, column: Any) -> Sequence[Any]:
    return row.label("row"), column.label("column")


def _distinct(row: Any, column: Any) -> Sequence[Any]:
    return (row,) if row is column else (row, column)
