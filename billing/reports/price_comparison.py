"""Explains the difference of two months' costs in parts that add up to the nano. Pure, but for reading the
sums.

A cell is one model's meter. The difference of a cell between the month before and the month after is split,
in this order, into:

- **volume**: the change of the month before's cost, had all cells of the same unit (tokens, requests,
  GPU-seconds) grown or shrunk alike, as their sum did.
- **mix**: the effect of this cell's growth beyond that sum: its own quantity at its average price of the
  month before, less volume. A new cell is all mix, an ended one has no price part; of a unit without use in
  the month before, all is volume.
- **price**: the cost of its quantity, less that quantity at its average price of the month before.
- **tiers**: the difference of tiers, minimums and commitments, booked when each month was closed.
- **corrections**: the difference of corrections and refunds booked to each month.

The first three split the amounts billed at the time of use. Each is rounded once, and the next takes the
rounding into account.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from billing.ledger.transactions import LineKind
from billing.money import round_half_even
from billing.periods import PeriodWindow
from billing.prices.rating import Meter
from billing.reports.period_sums import OF_POOLS
from billing.reports.priced_sums import PricedSums, priced_sums
from core.sql.database import Database


class CompareBy(StrEnum):
    """Grouping of the differences."""

    TOTAL = "total"
    MODEL = "model"
    METER = "meter"


class PriceCell(NamedTuple):
    """Unit of comparison: a model's meter."""

    model: str
    meter: str


@dataclass(frozen=True)
class CellSums:
    """A month's sums of a cell. `used_nano`: amount billed for `quantity` at the time of use."""

    quantity: int = 0
    used_nano: int = 0
    tiers_nano: int = 0
    corrections_nano: int = 0

    def __add__(self, other: "CellSums") -> "CellSums":
        return CellSums(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def amount_nano(self) -> int:
        """Sum of all parts."""
        return self.used_nano + self.tiers_nano + self.corrections_nano


Month = Mapping[PriceCell, CellSums]


@dataclass(frozen=True)
class PriceDifference:
    """Costs of one group in two months, and the parts of their difference."""

    before_nano: int = 0
    after_nano: int = 0
    volume_nano: int = 0
    mix_nano: int = 0
    price_nano: int = 0
    tiers_nano: int = 0
    corrections_nano: int = 0

    def __add__(self, other: "PriceDifference") -> "PriceDifference":
        return PriceDifference(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @property
    def difference_nano(self) -> int:
        """Sum of the parts."""
        return self.after_nano - self.before_nano


def compare(before: Month, after: Month, by: CompareBy = CompareBy.TOTAL) -> dict[str, PriceDifference]:
    """Differences by group, largest first; the groups add up to the total."""
    growth = {unit: (_units(before, unit), _units(after, unit)) for unit in UNIT_OF.values()}
    found: dict[str, PriceDifference] = {}
    for cell in sorted({*before, *after}):
        group = "total" if by is CompareBy.TOTAL else str(getattr(cell, by.value))
        of_cell = _split(
            before.get(cell, CellSums()), after.get(cell, CellSums()), growth[UNIT_OF[cell.meter]]
        )
        found[group] = found.get(group, PriceDifference()) + of_cell
    return dict(sorted(found.items(), key=lambda each: (-abs(each[1].difference_nano), each[0])))


def _split(before: CellSums, after: CellSums, units: tuple[int, int]) -> PriceDifference:
    """Split one cell's difference. `units`: quantity of all cells of its unit, before and after."""
    grown = after.used_nano
    if units[0] > 0:
        grown = round_half_even(before.used_nano * units[1], units[0])
    at_old_price = after.used_nano
    if before.quantity > 0:
        at_old_price = round_half_even(before.used_nano * after.quantity, before.quantity)
    return PriceDifference(
        before_nano=before.amount_nano,
        after_nano=after.amount_nano,
        volume_nano=grown - before.used_nano,
        mix_nano=at_old_price - grown,
        price_nano=after.used_nano - at_old_price,
        tiers_nano=after.tiers_nano - before.tiers_nano,
        corrections_nano=after.corrections_nano - before.corrections_nano,
    )


TOKENS = "token"
UNIT_OF = {
    meter.value: TOKENS
    if meter in (Meter.INPUT, Meter.CACHED_INPUT, Meter.OUTPUT, Meter.REASONING)
    else meter.value
    for meter in Meter
}


def _units(month: Month, unit: str) -> int:
    return sum(sums.quantity for cell, sums in month.items() if UNIT_OF[cell.meter] == unit)


def total(differences: Iterable[PriceDifference]) -> PriceDifference:
    """Sum of all differences."""
    return sum(differences, PriceDifference())


def sums_of(rows: Iterable[Sequence[Any]]) -> dict[PriceCell, CellSums]:
    """A month's sums by cell, from rows of (model, meter, kind, quantity, amount); Postgres's sums are
    decimals."""
    found: dict[PriceCell, CellSums] = {}
    for model, meter, kind, quantity, amount in rows:
        cell, nano = PriceCell(str(model), str(meter)), int(amount or 0)
        match LineKind(str(kind)):
            case LineKind.ADJUST:
                each = CellSums(corrections_nano=nano)
            case LineKind.TRUE_UP if cell.meter not in OF_POOLS:
                each = CellSums(tiers_nano=nano)
            case LineKind.USAGE | LineKind.TRUE_UP:
                each = CellSums(int(quantity or 0), nano)
        found[cell] = found.get(cell, CellSums()) + each
    return found


def month_sums(sums: Iterable[PricedSums]) -> dict[PriceCell, CellSums]:
    """A month's sums by cell, whatever the price versions."""
    return sums_of((each.model, each.meter, each.kind, each.quantity, each.amount_nano) for each in sums)


async def month_of(db: Database, tenant_id: str, window: PeriodWindow) -> dict[PriceCell, CellSums]:
    """Read a month's sums by cell."""
    return month_sums(await priced_sums(db, tenant_id, window))
