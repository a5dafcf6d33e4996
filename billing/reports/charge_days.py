"""Compares what two times cost, group by group: what each added to the later one, or took off it.

Sums are exact: whole hours come from the rollups, the edges of a tenant's days from the lines. The database
folds all groups that are not among the first ones, so that a million of them are never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import case, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import func

from billing.periods import Calendar, PeriodWindow
from billing.reports.usage_pages import parts_of
from billing.reports.usage_questions import Facet, UsageQuestion
from billing.reports.usage_report import UsageSums
from billing.tables.ledger import LedgerHead
from core.sql.database import Database

TOKENS = ("input_uncached", "input_cached", "output_text", "output_reasoning")
COLUMNS = ("requests", "tokens", "before", "after")


@dataclass(frozen=True)
class ComparedCosts:
    """What was used in the later time, and what both cost, in nano-USD."""

    requests: int = 0
    tokens: int = 0
    before_nano: int = 0
    after_nano: int = 0

    @property
    def added_nano(self) -> int:
        """What the later time cost more, below zero: less."""
        return self.after_nano - self.before_nano

    def __sub__(self, other: "ComparedCosts") -> "ComparedCosts":
        return ComparedCosts(
            self.requests - other.requests,
            self.tokens - other.tokens,
            self.before_nano - other.before_nano,
            self.after_nano - other.after_nano,
        )

    def __add__(self, other: "ComparedCosts") -> "ComparedCosts":
        return self - (ComparedCosts() - other)


@dataclass(frozen=True)
class ComparedGroups:
    """The groups that changed the total most, in its direction: those that added most come first where it
    grew, else those that took off most. `groups`: how many there are; `total`: of all of them."""

    first: list[tuple[str, ComparedCosts]]
    groups: int
    total: ComparedCosts

    @property
    def others(self) -> ComparedCosts:
        """The sum of those that are not listed."""
        return self.total - sum((costs for _, costs in self.first), ComparedCosts())


@dataclass(frozen=True)
class CostComparison:
    """Two times of a tenant. `facet` None: groups are times themselves; `of`: only this group of it."""

    tenant_id: str
    calendar: Calendar
    before: PeriodWindow
    after: PeriodWindow
    facet: Facet | None
    of: str | None = None

    def only(self, of: str) -> "CostComparison":
        """The same of one group."""
        return replace(self, of=of)

    def question(self, window: PeriodWindow) -> UsageQuestion:
        """What is asked of the usage of one of them."""
        assert self.facet is not None, "times are no groups of usage"
        where = {} if self.of is None else {self.facet: (self.of,)}
        return UsageQuestion(self.tenant_id, window, self.calendar, by=(self.facet,), where=where)


async def compared(db: Database, comparison: CostComparison, most: int) -> ComparedGroups:
    """Read the groups."""
    async with db.snapshot() as session:
        tenant_id = comparison.tenant_id
        head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
        return await _read(await session.connection(), comparison, head, most)


async def _read(
    connection: AsyncConnection, comparison: CostComparison, head: LedgerHead, most: int
) -> ComparedGroups:
    grouped = _grouped(comparison, head)
    named = [grouped.c[name] for name in COLUMNS]
    sums = [func.sum(column).over() for column in named]
    change = grouped.c.after - grouped.c.before
    way = func.sum(change).over()
    statement: Any = select(
        grouped.c.group, *named, func.count().over(), *sums, way.label("way"), change.label("change")
    )
    ranked = statement.subquery()
    order = _by_way(ranked.c.change, ranked.c.way)
    found = (
        await connection.execute(select(ranked).order_by(order.desc(), ranked.c.group).limit(most))
    ).all()
    return groups_of(found)


def groups_of(rows: Sequence[Sequence[Any]]) -> ComparedGroups:
    """The groups of rows of (group, *COLUMNS, number of groups, *sums of all). Postgres's sums are decimals.
    Pure."""
    first = [(str(row[0]), _costs(row[1:5])) for row in rows]
    if not rows:
        return ComparedGroups([], 0, ComparedCosts())
    return ComparedGroups(first, int(rows[0][5]), _costs(rows[0][6:10]))


def whole_sums(sums: UsageSums) -> ComparedCosts:
    """What a time used and cost, beside nothing. Pure."""
    tokens = sum(getattr(sums, name) for name in TOKENS)
    return ComparedCosts(sums.requests, tokens, 0, sums.amount_nano)


def _costs(values: Sequence[Any]) -> ComparedCosts:
    return ComparedCosts(*(int(value or 0) for value in values))


def _by_way(change: Any, way: Any) -> Any:
    return case((way < 0, -change), else_=change)


def _grouped(comparison: CostComparison, head: LedgerHead) -> Any:
    """A select of (group, *COLUMNS), one row a group, without groups that have nothing."""
    sides = [
        _side(comparison.question(comparison.before), head, later=False),
        _side(comparison.question(comparison.after), head, later=True),
    ]
    both = union_all(*sides).subquery("both")
    sums = {name: func.sum(both.c[name]) for name in COLUMNS}
    statement = select(both.c.group, *(each.label(name) for name, each in sums.items()))
    statement = statement.group_by(both.c.group).having(or_(*(each != 0 for each in sums.values())))
    return statement.subquery("grouped")


def _side(question: UsageQuestion, head: LedgerHead, *, later: bool) -> Any:
    parts = parts_of(question, None, head.line_seq, head.rolled_seq)
    rows = (union_all(*parts) if len(parts) > 1 else parts[0]).subquery()
    tokens: Any = sum(func.coalesce(rows.c[name], 0) for name in TOKENS)
    nothing, amount = literal(0), rows.c.amount_nano
    values = (rows.c.requests, tokens, nothing, amount) if later else (nothing, nothing, amount, nothing)
    summed = (
        func.coalesce(func.sum(value), 0).label(name) for name, value in zip(COLUMNS, values, strict=True)
    )
    return select(rows.c.group0.label("group"), *summed).group_by(rows.c.group0)
