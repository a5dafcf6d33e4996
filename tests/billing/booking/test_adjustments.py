"""Corrections: new lines for the difference, once, whatever was corrected before."""

import asyncio
import random

import pytest

from billing.booking.adjustments import QUANTITY_MAX, Correction, correct
from billing.booking.rollups import rebuild
from billing.ledger.transactions import HOUR_MS
from billing.money import round_half_even
from billing.periods import PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.usage_report import GroupBy, usage_as_of
from billing.tables.ledger import RollupHour, UsageLine
from billing.usage import encode
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import PRICES, an_event
from tests.billing.ledger.ledger_reading import proven, read
from tests.support.patience import BEAT_SECONDS, pause


async def test_a_correction_is_the_difference_and_points_at_what_it_corrects(database: Database) -> None:
    """7 output tokens were 5: two are given back at the price they were billed by."""
    await post(database, "default", [encode(an_event())])
    (line,) = await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 5}, "ticket 1"))
    assert (line.kind, line.quantity, line.amount_nano, line.adjusts_seq) == ("adjust", -2, -800, 4)
    (hour,) = await read(database, RollupHour)
    assert (hour.requests, hour.output_text, hour.amount_nano) == (1, 5, 2_900)
    found = await proven(database)
    assert (found.txns, found.lines, found.amount_nano) == (2, 5, 2_900)
    assert await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 5}, "ticket 2")) == []
    await rebuild(database, "t1")
    assert (await proven(database)).amount_nano == 2_900


async def test_corrections_on_corrections_end_at_the_truth(database: Database) -> None:
    """In any order, at once, up and down: the last word is what the request costs."""
    await post(database, "default", [encode(an_event())])
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    for number in range(12):
        quantity = chosen.choice((0, 1, 7, 12_345, 250_000))
        meter = chosen.choice((Meter.INPUT, Meter.CACHED_INPUT, Meter.OUTPUT, Meter.REASONING))
        wanted = Correction("r1", {meter: quantity}, f"c{number}")
        await asyncio.gather(*(correct(database, "t1", wanted) for _ in range(2)))
        lines = [line for line in await read(database, UsageLine) if line.meter == meter]
        assert sum(line.quantity for line in lines) == quantity
        price = {Meter.INPUT: PRICES.input_nano, Meter.CACHED_INPUT: PRICES.cached_input_nano}
        nano = price.get(meter, PRICES.output_nano)
        assert sum(line.amount_nano for line in lines) == round_half_even(quantity * nano, 1_000_000)
    await proven(database)


async def test_a_cause_is_booked_once(database: Database) -> None:
    """The same words again are the same correction; other ones under its name are refused."""
    await post(database, "default", [encode(an_event())])
    await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 5}, "ticket"))
    assert await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 5}, "ticket")) == []
    with pytest.raises(Refused):
        await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 6}, "ticket"))
    assert (await proven(database)).amount_nano == 2_900


async def test_the_books_as_they_were_are_still_there(database: Database) -> None:
    """A statement of a date does not know what was corrected after it."""
    await post(database, "default", [encode(an_event())])
    before = now_ms()
    await pause(BEAT_SECONDS)  # later by more than a millisecond
    await correct(database, "t1", Correction("r1", {Meter.OUTPUT: 0}, "refund"))
    hour = PeriodWindow(0, HOUR_MS)
    (then,) = await usage_as_of(database, "t1", hour, GroupBy.PROJECT, before)
    (now,) = await usage_as_of(database, "t1", hour, GroupBy.PROJECT, now_ms())
    assert (then.amount_nano, then.output_text) == (3_700, 7)
    assert (now.amount_nano, now.output_text) == (900, 0)


@pytest.mark.parametrize(
    ("tenant", "request_id", "quantities"),
    [
        ("t1", "none", {Meter.OUTPUT: 1}),
        ("t2", "r1", {Meter.OUTPUT: 1}),
        ("t1", "r1", {Meter.OUTPUT: -1}),
        ("t1", "r1", {Meter.OUTPUT: QUANTITY_MAX}),
        ("t1", "r1", {Meter.REQUEST: 2}),
        ("t1", "r1", {}),
        ("t1", "r1", {Meter.OUTPUT: QUANTITY_MAX - 1}),
        ("t1", "empty", {Meter.OUTPUT: 1}),
    ],
)
async def test_what_cannot_be_corrected_is_refused(
    database: Database, tenant: str, request_id: str, quantities: dict[Meter, int]
) -> None:
    """Another tenant's request, a negative amount, 2^53, a meter that has no price: the books stay."""
    nothing = an_event("empty", input_uncached=0, input_cached=0, output_text=0)
    await post(database, "default", [encode(an_event()), encode(nothing)])
    with pytest.raises(Refused):
        await correct(database, tenant, Correction(request_id, quantities, "x"))
    assert (await proven(database)).txns == 1
