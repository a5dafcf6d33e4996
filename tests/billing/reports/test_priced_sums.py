"""Sums by model, meter, kind and price version: what the lines say, to the nano, from rollups and edges."""

import random
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from sqlalchemy import select as sql_select
from sqlmodel import col

from billing.booking import rollups
from billing.booking.adjustments import Correction, correct
from billing.ledger.transactions import LineKind
from billing.ledger.verify import verify_ledger
from billing.periods import HOUR_MS, Calendar, PeriodWindow, month_number
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.price_comparison import compare, month_of, sums_of, total
from billing.reports.priced_sums import PricedSums, corrections_in, priced_sums
from billing.reports.usage_report import of_owner, with_owners
from billing.tables.ledger import RollupPrice, UsageLine
from billing.usage import UsageEvent, encode
from chaos.tampering.unguarded import tamper
from core.sql.database import Database
from tests.billing.events import PRICES, an_event
from tests.billing.ledger.ledger_reading import read

BEGIN = int(datetime(2026, 10, 20, tzinfo=UTC).timestamp() * 1000)
SPAN = 20 * 24 * HOUR_MS
# Whole hours; three quarters; half hours, whose clocks go back within this time.
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns")


def some_events(count: int, chosen: random.Random) -> list[UsageEvent]:
    """Of two models and two price versions, around the end of a month."""
    return [
        an_event(
            f"r{number:04}",
            model=chosen.choice(("small", "large")),
            ended_ms=BEGIN + chosen.randrange(SPAN),
            prices=msgspec.structs.replace(PRICES, version=chosen.choice((1, 2))),
            input_uncached=chosen.choice((0, 5, 1_000_003)),
            input_cached=chosen.choice((0, 7)),
            output_text=chosen.choice((0, 1, 333)),
        )
        for number in range(count)
    ]


async def of_lines(database: Database, window: PeriodWindow) -> list[PricedSums]:
    """The same from each line by itself."""
    columns: list[Any] = [
        of_owner("model"),
        UsageLine.meter,
        UsageLine.kind,
        UsageLine.price_book_id,
        UsageLine.price_version,
        UsageLine.quantity,
        UsageLine.amount_nano,
    ]
    statement: Any = with_owners(sql_select(*columns))
    statement = statement.where(
        col(UsageLine.tenant_id) == "t1",
        col(UsageLine.ended_ms) >= window.start_ms,
        col(UsageLine.ended_ms) < window.end_ms,
    )
    found: dict[tuple[Any, ...], list[int]] = {}
    async with database.looking() as connection:
        rows: list[Any] = list((await connection.execute(statement)).all())
        for *group, quantity, nano in rows:
            sums = found.setdefault(tuple(group), [0, 0])
            sums[0], sums[1] = sums[0] + quantity, sums[1] + nano
    return [PricedSums(*group, *sums) for group, sums in sorted(found.items())]


async def filled(database: Database) -> None:
    """Usage of two tenants, with a refund and a correction."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    events = some_events(150, random.Random(seed))
    await post(database, "default", [encode(event) for event in events])
    await post(database, "default", [encode(an_event("foreign", "t2", ended_ms=BEGIN))])
    used = [event.request for event in events if event.input_uncached and event.output_text]
    await correct(database, "t1", Correction(used[0], None, "slow"))
    await correct(database, "t1", Correction(used[1], {Meter.OUTPUT: 9000}, "lost"))


@pytest.mark.parametrize("zone", ZONES)
async def test_both_ways_to_read_a_month_agree(database: Database, zone: str) -> None:
    """By rollups and edges, and by lines: equal to the nano, also by parts of months."""
    await filled(database)
    calendar = Calendar(ZoneInfo(zone))
    months = [calendar.window(month_number(2026, each)) for each in (10, 11)]
    for window in (*months, PeriodWindow(months[0].start_ms + 5, months[1].end_ms - 7)):
        lines = await of_lines(database, window)
        assert await priced_sums(database, "t1", window) == lines
        assert await month_of(database, "t1", window) == sums_of(
            (each.model, each.meter, each.kind, each.quantity, each.amount_nano) for each in lines
        )
        adjusted = [each for each in lines if each.kind == "adjust"]
        assert await priced_sums(database, "t1", window, LineKind.ADJUST) == adjusted
        found = await corrections_in(database, "t1", window)
        assert sum(each.amount_nano for each in found) == sum(each.amount_nano for each in adjusted)
    before, after = [await month_of(database, "t1", each) for each in months]
    parts = total(compare(before, after).values())
    costs = [sum(each.amount_nano for each in await of_lines(database, month)) for month in months]
    assert (parts.before_nano, parts.after_nano) == tuple(costs)
    assert await priced_sums(database, "nobody", months[0]) == []


async def test_a_rebuild_makes_the_same_rollups_and_is_read_through(database: Database) -> None:
    """INV-26: while rollups lag, their lines are read; once they are made again they are as they were."""
    await filled(database)
    window = PeriodWindow(BEGIN, BEGIN + SPAN)
    before = await priced_sums(database, "t1", window)
    rows = sorted(await read(database, RollupPrice), key=str)
    await tamper(
        database,
        "DELETE FROM rollup_price WHERE tenant_id = 't1'",
        "DELETE FROM rollup_hour WHERE tenant_id = 't1'",
        "UPDATE ledger_head SET rolled_seq = 0 WHERE tenant_id = 't1'",
    )
    assert await priced_sums(database, "t1", window) == before
    await rollups.advance(database, "t1")
    assert sorted(await read(database, RollupPrice), key=str) == rows
    await rollups.rebuild(database, "t1")
    assert await priced_sums(database, "t1", window) == before


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE rollup_price SET amount_nano = amount_nano + 1",
        "UPDATE rollup_price SET price_version = price_version + 8",
        "DELETE FROM rollup_price WHERE quantity > 0",
    ],
)
async def test_a_rollup_that_is_not_its_lines_is_named(database: Database, edit: str) -> None:
    """As those by payer are."""
    await filled(database)
    assert (await verify_ledger(database, "t1")).faults == []
    await tamper(database, edit)
    assert any("its rollup says" in fault for fault in (await verify_ledger(database, "t1")).faults)
