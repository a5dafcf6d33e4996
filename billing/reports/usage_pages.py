"""Pages of a tenant's usage, in the order of buckets and groups, as of one line of its books.

The first page states the line; later pages answer as of the same one. So while usage arrives no group is
missed or repeated, and the pages add up to the books at that line. Rollups hold the lines up to
`ledger_head.rolled_seq`: lines between that and the asked line are added or subtracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BigInteger, case, literal_column, or_, select, text, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col, func

from billing.ledger.transactions import MEASURES
from billing.periods import HOUR_MS, PeriodWindow
from billing.reports.usage_questions import (
    BRIEF,
    Facet,
    PagePosition,
    UsageBucket,
    UsageQuestion,
    bucket_window,
    split_hours,
)
from billing.reports.usage_report import SUMS, UsageSums, of_owner, with_owners
from billing.tables.ledger import LedgerHead, RollupHour, RollupPrice, UsageLine
from billing.tables.tenants import UsageRow
from core.sql.database import Database

WORK_MIB = 32  # room for the groups of a large month, so that Postgres need not sort its rollups on disk
LINE_HOUR = "usage_line.ended_ms - usage_line.ended_ms % 3600000"
OF_HOURS: dict[Facet, Any] = {
    Facet.PROJECT: RollupHour.project_id,
    Facet.COST_CENTER: RollupHour.cost_center_id,
    Facet.USER: RollupHour.user_id,
    Facet.KEY: RollupHour.key_id,
    Facet.MODEL: RollupHour.model,
    Facet.POOL: RollupHour.pool,
}
OF_LINES: dict[Facet, Any] = {
    Facet.PROJECT: of_owner("project_id"),
    Facet.COST_CENTER: UsageLine.cost_center_id,
    Facet.USER: of_owner("user_id"),
    Facet.KEY: of_owner("key_id"),
    Facet.MODEL: of_owner("model"),
    Facet.POOL: of_owner("pool"),
    Facet.REASON: func.coalesce(UsageRow.reason, literal_column("''")),
    Facet.METER: UsageLine.meter,
    Facet.KIND: UsageLine.kind,
}


@dataclass(frozen=True)
class UsageGroup:
    """One group's sums in a bucket, or in the whole window."""

    window: PeriodWindow
    group: tuple[str, ...]
    sums: UsageSums


@dataclass(frozen=True)
class UsagePage:
    """`as_of`: the last line included. `end`: position of the last row, None where no group is left."""

    rows: list[UsageGroup]
    as_of: int
    end: PagePosition | None


async def usage_page(
    db: Database,
    question: UsageQuestion,
    rows_max: int,
    seconds_max: float,
    after: PagePosition | None = None,
    as_of: int | None = None,
) -> UsagePage:
    """Read the next groups, without those whose sums are all zero. Raises DBAPIError (`is_out_of_time`) where
    it takes longer than `seconds_max`."""
    async with db.short_snapshot(seconds_max) as session:
        connection = await session.connection()
        await widen_room(connection, db.dialect)
        head = await session.get(LedgerHead, question.tenant_id) or LedgerHead(tenant_id=question.tenant_id)
        until = head.line_seq if as_of is None else min(as_of, head.line_seq)
        statement = _statement(question, after, until, head.rolled_seq).limit(rows_max + 1)
        found = (await connection.execute(statement)).all()
    rows = [_group(question, row) for row in found[:rows_max]]
    last = found[rows_max - 1] if len(found) > rows_max else None
    end = None if last is None else PagePosition(int(last[0]), tuple(last[1 : 1 + len(question.by)]))
    return UsagePage(rows, until, end)


async def widen_room(connection: AsyncConnection, dialect: str) -> None:
    """Let this transaction's statements group a large month in memory."""
    if dialect != "sqlite":
        await connection.exec_driver_sql(f"SET LOCAL work_mem = '{WORK_MIB}MB'")


def _group(question: UsageQuestion, row: Sequence[Any]) -> UsageGroup:
    group = tuple(row[1 : 1 + len(question.by)])
    usage = UsageSums("")
    usage.add(row[1 + len(question.by) :])
    return UsageGroup(bucket_window(question, int(row[0])), group, usage)


def _statement(question: UsageQuestion, after: PagePosition | None, until: int, rolled: int) -> Any:
    parts = parts_of(question, after, until, rolled)
    parts = (union_all(*parts) if len(parts) > 1 else parts[0]).subquery("parts")
    order = [parts.c.bucket, *(parts.c[f"group{number}"] for number in range(len(question.by)))]
    sums = [func.sum(parts.c[name]) for name in SUMS]
    seen = sums[SUMS.index("amount_nano") :] if question.only_amounts else sums
    statement = select(*order, *sums).group_by(*order).having(or_(*(each != 0 for each in seen)))
    if after is not None:
        statement = statement.where(tuple_(*order) > tuple_(after.bucket_ms, *after.group))
    return statement.order_by(*order)


def parts_of(question: UsageQuestion, after: PagePosition | None, until: int, rolled: int) -> list[Any]:
    """Selects to add up: of hours and of lines."""
    start, end = question.window
    if after is not None and question.bucket is not None:
        start = max(start, after.bucket_ms)
    seq, ended = col(UsageLine.seq), col(UsageLine.ended_ms)
    in_time = (ended >= start, ended < end)
    if question.of_lines:
        return [_of_lines(question, after, 1, *in_time, seq <= until)]
    split = split_hours(question)
    table = _hours_of(question)
    hour = col(table.hour_ms)
    hours = (hour >= start, hour < end, *_none_of(f"{table.__tablename__}.hour_ms", split))
    parts = [_of_hours(question, after, *hours)]
    edges = [_overlap(PeriodWindow(each, each + HOUR_MS), PeriodWindow(start, end)) for each in split]
    edges = [edge for edge in edges if edge.start_ms < edge.end_ms]
    if edges:
        parts.append(_of_lines(question, after, 1, _in_one_of("usage_line.ended_ms", edges), seq <= until))
    if rolled != until:
        between = (seq > min(rolled, until), seq <= max(rolled, until), *_none_of(LINE_HOUR, split))
        sign = 1 if until > rolled else -1
        parts.append(_of_lines(question, after, sign, *in_time, *between))
    return parts


# Hundreds of our own numbers, which are slow to bind one by one.
def _none_of(at: str, hours: Sequence[int]) -> list[Any]:
    return [text(f"{at} NOT IN ({', '.join(str(int(hour)) for hour in hours)})")] if hours else []


def _in_one_of(at: str, windows: Sequence[PeriodWindow]) -> Any:
    pieces = (f"({at} >= {int(each.start_ms)} AND {at} < {int(each.end_ms)})" for each in windows)
    return text(f"({' OR '.join(pieces)})")


def _overlap(one: PeriodWindow, other: PeriodWindow) -> PeriodWindow:
    return PeriodWindow(max(one.start_ms, other.start_ms), min(one.end_ms, other.end_ms))


def _hours_of(question: UsageQuestion) -> type[RollupHour | RollupPrice]:
    """The rollups to read: of models and of all there are far fewer rows by price."""
    facets = {*question.by, *question.where}
    return (
        RollupPrice if question.brief and question.project is None and facets <= {Facet.MODEL} else RollupHour
    )


def _of_hours(question: UsageQuestion, after: PagePosition | None, *where: Any) -> Any:
    table = _hours_of(question)
    priced = table is RollupPrice
    of = {Facet.MODEL: RollupPrice.model} if priced else OF_HOURS
    name = cast(Any, table).__tablename__
    columns, at = [of[each] for each in question.by], f"{name}.hour_ms"
    groups, chosen = _groups(question, at, at, columns), _chosen(question, after, of)
    sums = _priced_sums() if priced else _hour_sums(question.brief)
    statement = select(*groups, *sums).where(col(table.tenant_id) == question.tenant_id, *where, *chosen)
    names: list[Any] = [literal_column(each.name) for each in groups]
    return statement.group_by(*names)


def _hour_sums(brief: bool) -> list[Any]:
    if not brief:
        return [func.sum(getattr(RollupHour, name)).label(name) for name in SUMS]
    first, *others = (getattr(RollupHour, name) for name in MEASURES.values())
    for each in others:
        first += each
    return [func.sum(RollupHour.amount_nano).label(BRIEF[0]), func.sum(first).label(BRIEF[1])]


def _priced_sums() -> list[Any]:
    tokens = case((col(RollupPrice.meter).in_(MEASURES), col(RollupPrice.quantity)), else_=0)
    return [func.sum(RollupPrice.amount_nano).label(BRIEF[0]), func.sum(tokens).label(BRIEF[1])]


def _of_lines(question: UsageQuestion, after: PagePosition | None, sign: int, *where: Any) -> Any:
    columns = [OF_LINES[each] for each in question.by]
    groups = _groups(question, "usage_line.ended_ms", LINE_HOUR, columns)
    first_line = col(UsageLine.number) == 0
    counted: dict[str, Any] = {
        "requests": func.count(col(UsageLine.number)).filter(first_line),
        "errors": func.count(col(UsageLine.number)).filter(first_line, col(UsageRow.reason) == "error"),
        "amount_nano": func.sum(col(UsageLine.amount_nano)),
        "tokens": func.sum(col(UsageLine.quantity)).filter(col(UsageLine.meter).in_(MEASURES)),
    }
    for meter, name in MEASURES.items():
        counted[name] = func.sum(col(UsageLine.quantity)).filter(col(UsageLine.meter) == meter)
    told = BRIEF if question.brief else SUMS
    sums = [(sign * func.coalesce(counted[name], literal_column("0"))).label(name) for name in told]
    chosen = _chosen(question, after, OF_LINES)
    statement = with_owners(select(*groups, *sums)).where(
        col(UsageLine.tenant_id) == question.tenant_id, *where, *chosen
    )
    names: list[Any] = [literal_column(each.name) for each in groups]
    return statement.group_by(*names)


def _groups(question: UsageQuestion, at: str, hour: str, columns: Sequence[Any]) -> list[Any]:
    """Columns of the bucket and the other groups. `at`, `hour`: trusted SQL for a row's time and its hour."""
    match question.bucket:
        case None:
            bucket = _tree(at, [0])
        case UsageBucket.HOUR:
            bucket = hour
        case UsageBucket.DAY | UsageBucket.MONTH:
            bucket = _tree(at, [*question.buckets])
    named = [literal_column(bucket, BigInteger).label("bucket")]
    return [*named, *(column.label(f"group{number}") for number, column in enumerate(columns))]


def _tree(at: str, starts: Sequence[int]) -> str:
    """SQL for the last of `starts` that is not after `at`, by binary search. Holds only our own numbers. (A
    bare number would be read as a column's position in GROUP BY.)"""
    if len(starts) == 1:
        return f"coalesce({int(starts[0])}, 0)"
    middle = len(starts) // 2
    before, from_there = _tree(at, starts[:middle]), _tree(at, starts[middle:])
    return f"CASE WHEN {at} < {int(starts[middle])} THEN {before} ELSE {from_there} END"


def _chosen(question: UsageQuestion, after: PagePosition | None, columns: dict[Facet, Any]) -> list[Any]:
    chosen = [columns[facet].in_(values) for facet, values in question.where.items()]
    if question.project is not None:
        chosen.append(columns[Facet.PROJECT] == question.project)
    if after is not None and question.bucket is None and question.by:
        chosen.append(columns[question.by[0]] >= after.group[0])
    return chosen
