"""Books of seeded tenants, written at once: rows as a biller would have made them, by COPY. Of requests
beyond those that are to be looked into, only their sums by the hour.

Budgets' sums are kept of the windows that run; wallets learn nothing of it: for benches that read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlmodel import SQLModel, col, select

from billing.booking.assess import Assessed, assess
from billing.booking.write import center_at
from billing.ledger.rows import EntryRow, LineRow, PriceRollupRow, RollupRow, TxnRow, UsageEventRow
from billing.ledger.transactions import (
    CostCenterOf,
    LineKind,
    PricedUsage,
    post_usage,
    price_rollups,
    rollups,
)
from billing.periods import HOUR_MS
from billing.prices.rating import Counts, rate
from billing.seeding.bulk import write_records
from billing.seeding.kept_budgets import keep_budgets
from billing.seeding.refusal_rows import refusal_rows
from billing.seeding.shapes import SeedShape, chance_of
from billing.seeding.tenant_rows import UsageSource
from billing.seeding.usage_events import MODELS, PRICES, hours_drawn, usage_events
from billing.tables.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerTxn,
    ProjectCostCenter,
    RollupHour,
    RollupPrice,
    UsageLine,
)
from billing.tables.refusals import RefusalHour
from billing.tables.tenants import UsageRow
from billing.usage import encode
from core.sql.database import Database, upsert

POSTED_AT_ONCE = 500  # requests of a transaction of the ledger
WRITTEN_AT_ONCE = 10_000  # requests whose rows are held in memory
BURST = 10  # requests of one user, key and model in an hour


SummedRow = RollupRow | PriceRollupRow


def _columns(table: type[SQLModel]) -> tuple[list[str], list[str]]:
    """The columns of a table's key, and its others."""
    made: Any = getattr(table, "__table__")  # noqa: B009  (SQLModel does not type it)
    keys = [column.name for column in made.primary_key.columns]
    return keys, [column.name for column in made.columns if column.name not in keys]


COLUMNS = {RollupRow: _columns(RollupHour), PriceRollupRow: _columns(RollupPrice)}


@dataclass
class BulkUsage:
    """Rows of one tenant that are not written yet, and its sums by the hour."""

    head: LedgerHead
    requests: list[UsageEventRow] = field(default_factory=list[UsageEventRow])
    lines: list[LineRow] = field(default_factory=list[LineRow])
    txns: list[TxnRow] = field(default_factory=list[TxnRow])
    entries: list[EntryRow] = field(default_factory=list[EntryRow])
    sums: dict[tuple[object, ...], SummedRow] = field(default_factory=dict[tuple[object, ...], SummedRow])

    def post(self, batch: Sequence[Assessed], centers: CostCenterOf, now_ms: int) -> None:
        """Post a batch of requests."""
        posting = post_usage(
            self.head, [PricedUsage(each.row, each.lines) for each in batch], centers, now_ms
        )
        self.head = posting.head
        self.requests += [each.row for each in batch]
        self.lines += posting.lines
        self.txns += posting.txns
        self.entries += posting.entries
        rows = [each.row for each in batch]
        for each in (*rollups(rows, posting.lines), *price_rollups(rows, posting.lines)):
            self.add(each)

    def add(self, more: SummedRow) -> None:
        """Add sums to those of the same hour and payer, or price."""
        keys, measures = COLUMNS[type(more)]
        of = (type(more), *(getattr(more, name) for name in keys))
        known = self.sums.get(of)
        if known is None:
            self.sums[of] = more
            return
        for name in measures:
            setattr(known, name, getattr(known, name) + getattr(more, name))

    async def write(self, db: Database) -> None:
        """Write the rows, without the sums by the hour, and forget them."""
        await write_records(
            db,
            {UsageRow: self.requests, UsageLine: self.lines, LedgerTxn: self.txns, LedgerEntry: self.entries},
        )
        for rows in (self.requests, self.lines, self.txns, self.entries):
            rows.clear()


async def write_bulk_usage(
    db: Database, shape: SeedShape, sources: Sequence[UsageSource], pool: str, looked_into: float
) -> None:
    """Write the books of these tenants, which have no usage, and what their limits refused. `looked_into`:
    the part of the requests that have rows of their own."""
    for source in sources:
        centers = await _centers(db, source.tenant)
        async with db.session() as session:
            head = await session.get(LedgerHead, source.tenant)  # who has money has one
        unwritten = BulkUsage(head or LedgerHead(tenant_id=source.tenant))
        whole = round(source.events * looked_into)
        events = (encode(each) for each in usage_events(shape, source, pool, whole))
        while some := list(islice(events, POSTED_AT_ONCE)):
            unwritten.post(assess(pool, some, shape.end_ms).good, centers, shape.end_ms)
            if len(unwritten.requests) >= WRITTEN_AT_ONCE:
                await unwritten.write(db)
        await unwritten.write(db)
        for row in summed_requests(shape, source, pool, source.events - whole, centers):
            unwritten.add(row)
        sums, refused = unwritten.sums.values(), list(refusal_rows(shape, source))
        hours = [each for each in sums if isinstance(each, RollupRow)]
        prices = [each for each in sums if isinstance(each, PriceRollupRow)]
        await write_records(db, {RollupHour: hours, RollupPrice: prices, RefusalHour: refused})
        async with db.transaction() as session:
            await upsert(session, [unwritten.head.model_dump()], LedgerHead)
        await keep_budgets(db, source.tenant, shape.end_ms)


def summed_requests(
    shape: SeedShape, of: UsageSource, pool: str, number: int, centers: CostCenterOf
) -> Iterator[SummedRow]:
    """Sums of so many requests that come in bursts. Pure."""
    chance, left = chance_of(shape, "sums", of.rank), number
    counts = Counts(input_uncached=400, input_cached=96, output_text=300)
    lines, nano = rate(counts, PRICES)
    for hour in hours_drawn(shape, chance, -(-number // BURST)):
        many = min(BURST, left)
        left -= many
        key, project = of.keys[int(chance.random() ** 2 * len(of.keys))]
        model = chance.choice(MODELS)
        yield RollupRow(
            tenant_id=of.tenant,
            hour_ms=hour * HOUR_MS,
            project_id=project,
            cost_center_id=centers(project, hour * HOUR_MS),
            user_id=of.users[int(chance.random() ** 2 * len(of.users))],
            key_id=key,
            model=model,
            pool=pool,
            requests=many,
            input_uncached=many * counts.input_uncached,
            input_cached=many * counts.input_cached,
            output_text=many * counts.output_text,
            amount_nano=many * nano,
        )
        of_price = (LineKind.USAGE.value, PRICES.book, PRICES.version)
        for line in lines:
            whose = (of.tenant, hour * HOUR_MS, model, line.meter.value, *of_price)
            yield PriceRollupRow(*whose, quantity=many * line.quantity, amount_nano=many * line.amount_nano)


async def _centers(db: Database, tenant: str) -> CostCenterOf:
    statement = select(ProjectCostCenter).where(col(ProjectCostCenter.tenant_id) == tenant)
    moves: dict[str, list[tuple[int, str]]] = {}
    async with db.session() as session:
        for row in (await session.exec(statement)).all():
            moves.setdefault(row.project_id, []).append((row.valid_from_ms, row.cost_center_id or ""))
    return lambda project, at_ms: center_at(sorted(moves.get(project, [])), at_ms)
