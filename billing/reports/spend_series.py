"""A month's cost and tokens by day, of the groups that cost most; all others are one sum. Reads only.

The database finds the groups and adds up the rest, so that an answer is small whatever a tenant has: a
million users are five of them, "other" and those of nobody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, case, literal_column, or_, select, union_all
from sqlmodel import func

from billing.periods import PeriodWindow
from billing.reports.usage_pages import parts_of, widen_room
from billing.reports.usage_questions import BRIEF, UsageBucket, UsageQuestion
from billing.tables.ledger import LedgerHead
from core.sql.database import Database

TOP = 5
NOBODY = ""
FEW_ROWS_MAX = 10_000


class SpendSums(NamedTuple):
    """Cost and tokens."""

    amount_nano: int = 0
    tokens: int = 0

    def plus(self, other: "SpendSums") -> "SpendSums":
        """Their sum."""
        return SpendSums(self.amount_nano + other.amount_nano, self.tokens + other.tokens)

    def less(self, other: "SpendSums") -> "SpendSums":
        """What is left without the other."""
        return SpendSums(self.amount_nano - other.amount_nano, self.tokens - other.tokens)


@dataclass(frozen=True)
class SeriesGroup:
    """One group: its month, and its days that have anything."""

    id: str
    month: SpendSums
    days: Mapping[int, SpendSums] = field(default_factory=dict[int, SpendSums])

    def with_day(self, day: int, sums: SpendSums) -> "SeriesGroup":
        """With these sums added to a day, and to the month."""
        days = {**self.days, day: self.days.get(day, SpendSums()).plus(sums)}
        return SeriesGroup(self.id, self.month.plus(sums), days)


@dataclass(frozen=True)
class DailySeries:
    """`top`: most expensive first; `nobody`: of no such group; `others`: all groups but these, of which there
    are `more`. `total`: of them all; `days`: the same by day."""

    top: list[SeriesGroup]
    nobody: SeriesGroup | None
    others: SeriesGroup
    more: int
    total: SpendSums
    days: dict[int, SpendSums]

    @classmethod
    def empty(cls) -> "DailySeries":
        """Nothing at all."""
        return assembled((), 0, (), {}, 0)


async def daily_series(
    db: Database, question: UsageQuestion, since_ms: int, few: bool = False
) -> DailySeries:
    """Read a window's days by one fact (`question.by`). `days` has totals from `since_ms` on. `few`: there
    are not many groups, so that all are read at once, and ranked here."""
    earlier = PeriodWindow(min(since_ms, question.window.start_ms), question.window.end_ms)
    by_day = replace(question, bucket=UsageBucket.DAY)
    async with db.snapshot() as session:
        connection = await session.connection()
        await widen_room(connection, db.dialect)
        head = await session.get(LedgerHead, question.tenant_id) or LedgerHead(tenant_id=question.tenant_id)
        seqs = head.line_seq, head.rolled_seq
        every = replace(by_day, window=earlier, by=())
        totals: list[Any] = list((await connection.execute(_by_day(every, seqs))).all())
        rows: list[Any] = []
        if few:
            all_of_it = _by_day(by_day, seqs).limit(FEW_ROWS_MAX + 1)
            rows = list((await connection.execute(all_of_it)).all())
        if few and len(rows) <= FEW_ROWS_MAX:
            shown, groups = _dearest(rows)
        else:
            ranked: list[Any] = list((await connection.execute(_ranked(question, seqs))).all())
            shown = [str(row.group0) for row in ranked if row.group0 != NOBODY][:TOP]
            groups = int(ranked[0].groups) if ranked else 0
            named = replace(by_day, where={question.by[0]: (*shown, NOBODY)})
            rows = list((await connection.execute(_by_day(named, seqs))).all())
    told = {*shown, NOBODY}
    sums = [(int(day), str(id), _sums(nano, tokens)) for day, id, nano, tokens in rows if id in told]
    days = {int(day): _sums(nano, tokens) for day, nano, tokens in totals}
    return assembled(shown, groups, sums, days, question.window.start_ms)


async def bucket_costs(db: Database, question: UsageQuestion) -> dict[int, int]:
    """What each bucket of a window cost that has anything, by its start."""
    async with db.snapshot() as session:
        connection = await session.connection()
        head = await session.get(LedgerHead, question.tenant_id) or LedgerHead(tenant_id=question.tenant_id)
        every = _by_day(replace(question, by=()), (head.line_seq, head.rolled_seq))
        rows: list[Any] = list((await connection.execute(every)).all())
    return {int(start): int(nano or 0) for start, nano, _ in rows}


def assembled(
    shown: Sequence[str],
    groups: int,
    rows: Sequence[tuple[int, str, SpendSums]],
    days: Mapping[int, SpendSums],
    start_ms: int,
) -> DailySeries:
    """The series of rows of (day, group, sums) and the totals of days: what is of no row is of other groups.
    `groups`: how many have anything, nobody's apart. Days before `start_ms` are of `days` alone. Pure."""
    found = {id: SeriesGroup(id, SpendSums()) for id in (*shown, NOBODY)}
    others = SeriesGroup("", SpendSums(), {day: sums for day, sums in days.items() if day >= start_ms})
    for day, id, sums in rows:
        found[id] = found[id].with_day(day, sums)
        others = others.with_day(day, SpendSums(-sums.amount_nano, -sums.tokens))
    total = SpendSums()
    for day, sums in days.items():
        total = total.plus(sums) if day >= start_ms else total
    month = total
    for each in found.values():
        month = month.less(each.month)
    nobody = found[NOBODY] if any(sums != SpendSums() for sums in found[NOBODY].days.values()) else None
    return DailySeries(
        top=[found[id] for id in shown],
        nobody=nobody,
        others=replace(others, month=month),
        more=max(0, groups - len(shown)),
        total=total,
        days=dict(days),
    )


def _dearest(rows: Sequence[Any]) -> tuple[list[str], int]:
    """The groups that cost most, of rows of (day, group, nano, tokens), and how many have anything."""
    months: dict[str, SpendSums] = {}
    for _, id, nano, tokens in rows:
        months[str(id)] = months.get(str(id), SpendSums()).plus(_sums(nano, tokens))
    some = [id for id, sums in months.items() if id != NOBODY and sums != SpendSums()]
    some.sort(key=lambda id: (-months[id].amount_nano, -months[id].tokens, id))
    return some[:TOP], len(some)


def _sums(nano: Any, tokens: Any) -> SpendSums:
    """Postgres' sums are decimals."""
    return SpendSums(int(nano or 0), int(tokens or 0))


def _ranked(question: UsageQuestion, seqs: tuple[int, int]) -> Any:
    """Rows of the groups that cost most: (group0, groups); `groups`: how many there are, without nobody's."""
    parts = _parts(question, seqs)
    nano, tokens = func.sum(parts.c.amount_nano), func.sum(parts.c.tokens)
    statement: Any = select(parts.c.group0, nano.label("nano"), tokens.label("tokens"))
    seen = [func.sum(parts.c[name]) != 0 for name in BRIEF]
    found = statement.group_by(parts.c.group0).having(or_(*seen)).subquery("found")
    groups: Any = func.sum(case((found.c.group0 == NOBODY, 0), else_=1)).over().label("groups")
    order = found.c.nano.desc(), found.c.tokens.desc(), found.c.group0
    return select(found.c.group0, groups).order_by(*order).limit(TOP + 1)


def _by_day(question: UsageQuestion, seqs: tuple[int, int]) -> Any:
    """Rows of (bucket, group, nano, tokens); of a question without a fact without the group."""
    parts = _parts(question, seqs)
    groups = [parts.c.bucket, *([parts.c.group0] if question.by else [])]
    return select(*groups, func.sum(parts.c.amount_nano), func.sum(parts.c.tokens)).group_by(*groups)


def _parts(question: UsageQuestion, seqs: tuple[int, int]) -> Any:
    parts = parts_of(replace(question, brief=True), None, *seqs)
    return (union_all(*parts) if len(parts) > 1 else parts[0]).subquery("parts")


class AddedGroup(NamedTuple):
    """What a group cost in a window, and in the one that it is set against."""

    id: str
    now_nano: int
    was_nano: int


async def most_added(db: Database, question: UsageQuestion, before: PeriodWindow) -> AddedGroup | None:
    """The group (of the question's one fact, nobody's apart) that cost so much more in the question's window
    than in the one before as no other."""
    async with db.snapshot() as session:
        connection = await session.connection()
        head = await session.get(LedgerHead, question.tenant_id) or LedgerHead(tenant_id=question.tenant_id)
        seqs = head.line_seq, head.rolled_seq
        now, was = _parts(question, seqs), _parts(replace(question, window=before), seqs)
        none = literal_column("0", BigInteger)
        both = union_all(
            select(now.c.group0, now.c.amount_nano.label("now"), none.label("was")),
            select(was.c.group0, none, was.c.amount_nano),
        ).subquery("both")
        sums = func.sum(both.c.now).label("now"), func.sum(both.c.was).label("was")
        statement: Any = select(both.c.group0, *sums).where(both.c.group0 != NOBODY).group_by(both.c.group0)
        order = (func.sum(both.c.now) - func.sum(both.c.was)).desc(), both.c.group0
        row: Any = (await connection.execute(statement.order_by(*order).limit(1))).first()
    return None if row is None else AddedGroup(str(row[0]), int(row[1] or 0), int(row[2] or 0))
