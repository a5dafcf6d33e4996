"""What usage that was billed would have cost under other prices: every request priced again, line by line.

Reads only. Exact: lines are rounded as they would have been.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass

from sqlmodel import col, select

from billing.periods import Window
from billing.price_book import ANY_MODEL
from billing.price_files import FlatPrices
from billing.prices import Counts, rate
from billing.tables import UsageRow
from billing.usage import PinnedPrices
from core.database import Database

ROWS_AT_ONCE = 10_000

Progress = Callable[[int], None]


@dataclass
class Compared:
    """One tenant's usage of one model. `would_nano` counts what has a new price; `unpriced` requests have
    none and stay as they are."""

    tenant_id: str
    model: str
    requests: int = 0
    unpriced: int = 0
    was_nano: int = 0
    would_nano: int = 0


async def what_if(
    db: Database,
    prices: Mapping[str, FlatPrices],
    window: Window,
    tenant_id: str | None = None,
    told: Progress | None = None,
) -> list[Compared]:
    """Usage that ended in the window, of one tenant or (for operators) of all; the greatest change first."""
    found: dict[tuple[str, str], Compared] = {}
    new = {model: _pinned(each) for model, each in prices.items()}
    done = 0
    async for tenant, model, *counts, was_nano in _usage(db, window, tenant_id):
        compared = found.setdefault((tenant, model), Compared(tenant, model))
        pinned = new.get(model) or new.get(ANY_MODEL)
        compared.requests += 1
        compared.was_nano += was_nano
        compared.unpriced += pinned is None
        compared.would_nano += was_nano if pinned is None else rate(Counts(*counts), pinned)[1]
        done += 1
        if told and done % ROWS_AT_ONCE == 0:
            told(done)
    return sorted(found.values(), key=lambda each: -abs(each.would_nano - each.was_nano))


async def _usage(
    db: Database, window: Window, tenant_id: str | None
) -> AsyncGenerator[tuple[str, str, int, int, int, int, int]]:
    """(tenant, model, the counts, cost) of each request, in pages by key: nothing large is held."""
    counts = (UsageRow.input_uncached, UsageRow.input_cached, UsageRow.output_text, UsageRow.output_reasoning)
    key = (col(UsageRow.tenant_id), col(UsageRow.ended_ms), col(UsageRow.request_id))
    statement = select(*key, col(UsageRow.model), *counts, col(UsageRow.cost_nano)).where(  # type: ignore[call-overload]
        col(UsageRow.ended_ms) >= window.start_ms, col(UsageRow.ended_ms) < window.end_ms
    )
    if tenant_id is not None:
        statement = statement.where(col(UsageRow.tenant_id) == tenant_id)
    async with db.engine.connect() as connection:
        rows = await connection.stream(statement.order_by(*key))
        async for page in rows.partitions(ROWS_AT_ONCE):
            for row in page:
                tenant, _, _, model, *used = tuple(row)
                yield tenant, model, *used


def _pinned(prices: FlatPrices) -> PinnedPrices:
    facts = {name: getattr(prices, name) for name in prices.__struct_fields__}
    return PinnedPrices(book="", version=0, **facts)
