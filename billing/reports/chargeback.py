"""A month's cost as a matrix of any two facts of usage, for those who charge it to others. Pure.

The largest rows and columns are named, and all others are one more: whatever is asked, the cells add up to
the books to the nano.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from billing.ledger.tag_rollups import TagSpan
from billing.periods import PeriodWindow
from billing.reports.usage_questions import Facet

NOBODY = ""  # of what has no such fact
OTHER = "\x01other"  # all that is not named by itself; no id, model or pool begins so
TIERS = "\x01tiers"  # differences by tiers, minimums and commitments, booked when a month closes
FACETS = (Facet.PROJECT, Facet.COST_CENTER, Facet.USER, Facet.KEY, Facet.MODEL, Facet.POOL)
LAST = (TIERS, NOBODY, OTHER)  # in this order, behind what has a name

Cells = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class TagFact:
    """A declared tag as a fact of usage."""

    key: str


Fact = Facet | TagFact


@dataclass(frozen=True)
class ChargebackQuestion:
    """Whose cost, of when, by what. `known_ms`: as the books said then, None: as they say now. At most so
    many rows and columns are named. `spans`: all that the tenant ever declared; `only`: of what has this tag
    alone, and `only_value`, where it is not empty."""

    tenant_id: str
    window: PeriodWindow
    rows: Fact
    columns: Fact
    rows_max: int
    columns_max: int
    known_ms: int | None = None
    spans: Sequence[TagSpan] = ()
    only: TagFact | None = None
    only_value: str = ""

    @property
    def by_tags(self) -> bool:
        """True where tags are asked for, which other sums know nothing of."""
        return self.only is not None or any(isinstance(each, TagFact) for each in (self.rows, self.columns))


class Named(NamedTuple):
    """The values of one fact that are shown by themselves, the most expensive first, and how many more there
    are."""

    values: Sequence[str]
    more: int


@dataclass(frozen=True)
class MatrixHead:
    """A row or a column: its value and its sum. `more`: of OTHER, how many it stands for."""

    value: str
    total_nano: int
    more: int = 0


@dataclass(frozen=True)
class CostMatrix:
    """The sums, row by row: `cells` has one amount for each column."""

    rows: Sequence[MatrixHead]
    columns: Sequence[MatrixHead]
    cells: Sequence[Sequence[int]]

    @property
    def total_nano(self) -> int:
        """Sum of all."""
        return sum(head.total_nano for head in self.rows)


def named(sums: Mapping[str, int], most: int) -> Named:
    """The values with the largest sums of either sign, at most so many. What stands last is no value."""
    values = sorted((each for each in sums if each not in LAST), key=lambda each: (-abs(sums[each]), each))
    return Named(values[:most], max(0, len(values) - most))


def matrix_of(cells: Cells, rows: Named, columns: Named) -> CostMatrix:
    """The matrix of sums by row and column. What neither names nor stands last counts as OTHER."""
    sums: dict[tuple[str, str], int] = {}
    for (row, column), nano in cells.items():
        key = (_shown(row, rows), _shown(column, columns))
        sums[key] = sums.get(key, 0) + nano
    row_heads = _heads(((row, nano) for (row, _), nano in sums.items()), rows)
    column_heads = _heads(((column, nano) for (_, column), nano in sums.items()), columns)
    table = [[sums.get((row.value, column.value), 0) for column in column_heads] for row in row_heads]
    return CostMatrix(row_heads, column_heads, table)


def _shown(value: str, listed: Named) -> str:
    return value if value in LAST or value in listed.values else OTHER


def _heads(sums: Iterable[tuple[str, int]], listed: Named) -> list[MatrixHead]:
    """Heads with their sums, by size, then what stands last; none for what is nothing everywhere."""
    totals: dict[str, int] = {}
    seen: set[str] = set()
    for value, nano in sums:
        totals[value] = totals.get(value, 0) + nano
        if nano:
            seen.add(value)
    ordered = sorted(seen, key=lambda value: (_place(value), -totals[value], value))
    return [MatrixHead(each, totals[each], listed.more if each == OTHER else 0) for each in ordered]


def _place(value: str) -> int:
    return LAST.index(value) + 1 if value in LAST else 0
