"""Prices billed usage under other prices: every request again, line by line, trued up by the tiers of both.

Reads only, and holds sums only. Exact: lines are rounded as in a real bill. Commitments and GPUs keep their
cost; corrected requests count as they were first billed.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlmodel import col

from billing.closing.period_close import true_ups_in
from billing.closing.period_commitments import commitments_in
from billing.periods import PeriodWindow
from billing.prices.book import ANY_MODEL
from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import TierKey
from billing.prices.rating import Counts, Meter, PricedQuantity, rate
from billing.prices.tiers import TierPrices
from billing.prices.true_up import PeriodSums, TrueUpKey, Versions, true_up
from billing.prices.versions import as_version
from billing.tables.tenants import UsageRow
from billing.usage import PinnedPrices
from core.sql.database import Database
from core.sql.selects import select_columns

ROWS_AT_ONCE = 10_000
NEW: tuple[str, int] = ("new", 1)
OF_POOLS = (Meter.GPU_SECOND, Meter.RESERVED_GPU_SECOND)
MINIMUM = "minimum"  # in the place of a model: the rest up to a spending commitment

Progress = Callable[[int], None]


@dataclass
class WhatIfResult:
    """One tenant's usage of one model. `would_nano` includes requests with a new price; `unpriced` ones have
    none and keep their cost. `was_true_up_nano` and `would_true_up_nano`: the parts that are booked at the
    period's end."""

    tenant_id: str
    model: str
    requests: int = 0
    unpriced: int = 0
    was_nano: int = 0
    would_nano: int = 0
    was_true_up_nano: int = 0
    would_true_up_nano: int = 0


class _Tally:
    """Sums by meter of the lines that one tenant's model would have under the new prices."""

    def __init__(self) -> None:
        self.quantities = dict.fromkeys(Meter, 0)
        self.amounts = dict.fromkeys(Meter, 0)

    def add(self, lines: Iterable[PricedQuantity]) -> None:
        """Add a request's lines."""
        for line in lines:
            self.quantities[line.meter] += line.quantity
            self.amounts[line.meter] += line.amount_nano


Found = dict[tuple[str, str], WhatIfResult]  # by tenant and model
Tallies = dict[tuple[str, str], _Tally]


async def what_if(
    db: Database,
    prices: Mapping[str, FlatPrices],
    window: PeriodWindow,
    tenant_id: str | None = None,
    told: Progress | None = None,
    tiers: Mapping[TierKey, TierPrices] | None = None,
) -> list[WhatIfResult]:
    """Compare usage that ended in the window, of one tenant or (for operators) of all; greatest change
    first."""
    found, tallies = await _replay(db, prices, window, tenant_id, told or (lambda _: None))
    versions: Versions = {NEW: as_version(0, dict(prices), dict(tiers or {}))}
    for tenant in sorted({tenant for tenant, _ in found}):
        await _add_true_ups(db, tenant, window, found, tallies, versions)
    return sorted(found.values(), key=lambda each: -abs(each.would_nano - each.was_nano))


async def _replay(
    db: Database,
    prices: Mapping[str, FlatPrices],
    window: PeriodWindow,
    tenant_id: str | None,
    told: Progress,
) -> tuple[Found, Tallies]:
    """Price every request by the new flat prices."""
    found: Found = {}
    tallies: Tallies = {}
    new = {model: _pinned(each) for model, each in prices.items()}
    done = 0
    async for tenant, model, *counts, was_nano in _usage(db, window, tenant_id):
        compared = found.setdefault((tenant, model), WhatIfResult(tenant, model))
        pinned = new.get(model) or new.get(ANY_MODEL)
        compared.requests += 1
        compared.was_nano += was_nano
        if pinned is None:
            compared.unpriced += 1
            compared.would_nano += was_nano
        else:
            lines, cost_nano = rate(Counts(*counts), pinned)
            compared.would_nano += cost_nano
            tallies.setdefault((tenant, model), _Tally()).add(lines)
        done += 1
        if done % ROWS_AT_ONCE == 0:
            told(done)
    return found, tallies


async def _add_true_ups(
    db: Database, tenant: str, window: PeriodWindow, found: Found, tallies: Tallies, versions: Versions
) -> None:
    """Add the true-ups of one tenant's sums, under the old prices and the new."""
    async with db.snapshot() as session:
        sums, was = await true_ups_in(session, tenant, window)
        commitments = await commitments_in(session, tenant, window)
    would = {key: each for key, each in sums.items() if key.meter in OF_POOLS}
    for (owner, model), tally in tallies.items():
        if owner == tenant:
            would |= _sums_of(model, tally)
    for each in was:
        compared = _of(found, tenant, each.key.model)
        compared.was_true_up_nano += each.cost_nano - each.flat_nano
        compared.was_nano += each.cost_nano - each.flat_nano
    for each in true_up(would, versions, commitments):
        compared = _of(found, tenant, each.key.model)
        compared.would_true_up_nano += each.difference_nano
        compared.would_nano += each.difference_nano


def _of(found: Found, tenant: str, model: str) -> WhatIfResult:
    name = model or MINIMUM
    return found.setdefault((tenant, name), WhatIfResult(tenant, name))


def _sums_of(model: str, tally: _Tally) -> dict[TrueUpKey, PeriodSums]:
    return {
        TrueUpKey(model, meter, *NEW): PeriodSums(quantity, tally.amounts[meter], tally.amounts[meter])
        for meter, quantity in tally.quantities.items()
        if quantity
    }


async def _usage(
    db: Database, window: PeriodWindow, tenant_id: str | None
) -> AsyncGenerator[tuple[str, str, int, int, int, int, int]]:
    """Yield (tenant, model, the counts, cost) of each request, read in pages to bound memory."""
    counts = (UsageRow.input_uncached, UsageRow.input_cached, UsageRow.output_text, UsageRow.output_reasoning)
    key = (col(UsageRow.tenant_id), col(UsageRow.ended_ms), col(UsageRow.request_id))
    statement = select_columns(*key, col(UsageRow.model), *counts, col(UsageRow.cost_nano)).where(
        col(UsageRow.ended_ms) >= window.start_ms, col(UsageRow.ended_ms) < window.end_ms
    )
    if tenant_id is not None:
        statement = statement.where(col(UsageRow.tenant_id) == tenant_id)
    async with db.looking() as connection:
        rows = await connection.stream(statement.order_by(*key))
        async for page in rows.partitions(ROWS_AT_ONCE):
            for row in page:
                tenant, _, _, model, *used = tuple(row)
                yield tenant, model, *used


def _pinned(prices: FlatPrices) -> PinnedPrices:
    facts = {name: getattr(prices, name) for name in prices.__struct_fields__}
    return PinnedPrices(book="", version=0, **facts)
