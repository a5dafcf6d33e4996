"""Chargeback: any two facts of a month as a matrix that adds up to the books, now and as of earlier."""

import random
from dataclasses import replace
from itertools import permutations

import pytest

from billing.booking import rollups
from billing.booking.adjustments import Correction, correct
from billing.periods import HOUR_MS, PeriodWindow
from billing.posting import biller
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports import chargeback_sums
from billing.reports.chargeback import (
    FACETS,
    NOBODY,
    OTHER,
    TIERS,
    ChargebackQuestion,
    CostMatrix,
    Fact,
    MatrixHead,
    Named,
    matrix_of,
    named,
)
from billing.reports.chargeback_sums import read_matrix
from billing.reports.usage_questions import Facet
from billing.tables.ledger import UsageLine
from billing.tables.tenants import UsageRow
from billing.usage import UsageEvent, UsageOwner, encode
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read

BEGIN = 1_790_000_000_000 - 1_790_000_000_000 % HOUR_MS
HOURS = 30


def test_the_largest_are_named_and_the_rest_is_one_more():
    """Whatever the sums' signs, the matrix adds up to all cells; nobody's comes after what has a name."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    for _ in range(200):
        names = [NOBODY, TIERS, *(f"n{number}" for number in range(chosen.randrange(1, 12)))]
        pairs = {(chosen.choice(names), chosen.choice(names)) for _ in range(chosen.randrange(40))}
        cells = {pair: chosen.randrange(-9, 10**12) for pair in pairs}
        rows: dict[str, int] = {}
        for (row, _), nano in cells.items():
            rows[row] = rows.get(row, 0) + nano
        most = chosen.randrange(1, 6)
        found = matrix_of(cells, named(rows, most), Named(names[:4], 3))
        assert found.total_nano == sum(cells.values())
        assert sum(head.total_nano for head in found.columns) == found.total_nano
        assert [sum(line) for line in found.cells] == [head.total_nano for head in found.rows]
        values = [head.value for head in found.rows if head.value not in (NOBODY, OTHER, TIERS)]
        assert len(values) <= most
        assert [head.value for head in found.rows][len(values) :] == [
            each for each in (TIERS, NOBODY, OTHER) if each in {head.value for head in found.rows}
        ]


def test_what_cost_nothing_has_no_row_and_what_cancels_out_has_one():
    """A row of zeros says nothing; one whose cells differ does, though its sum is zero."""
    cells = {("free", "m"): 0, ("moved", "m"): 5, ("moved", "n"): -5}
    found = matrix_of(cells, Named(["free", "moved"], 0), Named(["m", "n"], 0))
    assert found == CostMatrix([MatrixHead("moved", 0)], [MatrixHead("m", 5), MatrixHead("n", -5)], [[5, -5]])


def some_events(count: int, chosen: random.Random, prefix: str) -> list[UsageEvent]:
    """Of several owners, models and pools, over a day and a bit."""
    return [
        an_event(
            f"{prefix}{number:04}",
            model=chosen.choice(("small", "large", "wide")),
            pool=chosen.choice(("default", "eu")),
            owner=UsageOwner(
                chosen.choice(("p1", "p2")), chosen.choice(("k1", "k2", "k3")), chosen.choice(("", "u1", "ü"))
            ),
            ended_ms=BEGIN + chosen.randrange(HOURS * HOUR_MS),
            input_uncached=chosen.choice((0, 5, 1_000_003)),
        )
        for number in range(count)
    ]


async def posted(database: Database, events: list[UsageEvent]) -> None:
    """Billed."""
    for pool in ("default", "eu"):
        await post(database, pool, [encode(event) for event in events if event.pool == pool])


async def lines_of(database: Database, question: ChargebackQuestion) -> dict[tuple[str, str], int]:
    """The same sums, from each line by itself."""
    rows = {(row.tenant_id, row.request_id): row for row in await read(database, UsageRow)}
    found: dict[tuple[str, str], int] = {}
    for line in await read(database, UsageLine):
        known = question.known_ms is None or line.posted_ms <= question.known_ms
        start, end = question.window
        if line.tenant_id != question.tenant_id or not known or not start <= line.ended_ms < end:
            continue
        row = rows[line.tenant_id, line.request_id]
        facts: dict[Fact, str] = {
            Facet.PROJECT: row.project_id,
            Facet.COST_CENTER: line.cost_center_id,
            Facet.USER: row.user_id,
            Facet.KEY: row.key_id,
            Facet.MODEL: row.model,
            Facet.POOL: row.pool,
        }
        key = facts[question.rows], facts[question.columns]
        found[key] = found.get(key, 0) + line.amount_nano
    return {key: nano for key, nano in found.items() if nano}


def cells_of(matrix: CostMatrix) -> dict[tuple[str, str], int]:
    """The cells that are not zero."""
    return {
        (row.value, column.value): nano
        for row, line in zip(matrix.rows, matrix.cells, strict=True)
        for column, nano in zip(matrix.columns, line, strict=True)
        if nano
    }


@pytest.mark.parametrize("groups_max", [5_000, 3])
async def test_a_report_is_what_the_lines_say_now_and_as_of_any_time(
    database: Database, monkeypatch: pytest.MonkeyPatch, groups_max: int
) -> None:
    """By any two facts, in windows that begin within hours, as of before and after what came late, while the
    rollups are made anew; the database folds what is too much to read. Another tenant's counts nowhere."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    monkeypatch.setattr(chargeback_sums, "GROUPS_MAX", groups_max)
    posted_ms = [BEGIN + 5 * HOUR_MS, BEGIN + 20 * HOUR_MS + 7, BEGIN + 40 * HOUR_MS]
    for number, at_ms in enumerate(posted_ms):
        monkeypatch.setattr(biller, "now_ms", lambda at_ms=at_ms: at_ms)
        events = some_events(25, chosen, f"r{number}-")
        await posted(database, [each for each in events if each.ended_ms <= at_ms])
        await post(database, "default", [encode(an_event(f"foreign{number}", "t2", ended_ms=BEGIN))])
    done = (await read(database, UsageRow))[0].request_id
    await correct(database, "t1", Correction(done, {Meter.INPUT: 3, Meter.OUTPUT: 0}, "c"))
    start = BEGIN + chosen.randrange(-HOUR_MS, 2 * HOUR_MS)
    window = PeriodWindow(start, start + chosen.randrange(20 * HOUR_MS, 32 * HOUR_MS))
    question = ChargebackQuestion("t1", window, *FACETS[:2], rows_max=99, columns_max=99)
    for facets in chosen.sample(list(permutations(FACETS, 2)), 8):
        question = replace(question, rows=facets[0], columns=facets[1])
        for known_ms in (None, BEGIN - HOUR_MS, *posted_ms, posted_ms[1] - 1):
            asked = replace(question, known_ms=known_ms)
            assert cells_of(await read_matrix(database, asked)) == await lines_of(database, asked), asked
        folded = await read_matrix(database, replace(question, rows_max=1, columns_max=1))
        assert folded.total_nano == sum((await lines_of(database, question)).values())
    monkeypatch.setattr(rollups, "LINES_AT_ONCE", 40)
    with pytest.raises(KeyboardInterrupt):
        await rollups.rebuild(database, "t1", _die)
    for known_ms in (None, *posted_ms):
        asked = replace(question, known_ms=known_ms)
        assert cells_of(await read_matrix(database, asked)) == await lines_of(database, asked), asked


def _die(done: int, whole: int) -> None:
    """With the rollups half made."""
    if done >= 80:
        raise KeyboardInterrupt


async def test_many_values_are_folded_by_the_database(database: Database, monkeypatch: pytest.MonkeyPatch):
    """The largest are named, and how many others there are is told."""
    monkeypatch.setattr(chargeback_sums, "GROUPS_MAX", 5)
    events = [
        an_event(f"r{n:02}", owner=UsageOwner("p1", "k1", f"u{n:02}"), ended_ms=BEGIN, output_text=1 + n)
        for n in range(40)
    ]
    await posted(database, events)
    window = PeriodWindow(BEGIN, BEGIN + HOUR_MS)
    found = await read_matrix(
        database, ChargebackQuestion("t1", window, Facet.USER, Facet.MODEL, rows_max=3, columns_max=3)
    )
    assert [head.value for head in found.rows] == ["u39", "u38", "u37", OTHER]
    assert (found.rows[-1].more, found.total_nano) == (37, sum(each.cost_nano for each in events))
