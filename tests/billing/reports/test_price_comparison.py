"""Why a month cost more than another: parts that mean what they say, and add up to the nano."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cli.months import month_window
from billing.periods import UTC_ZONE, Calendar, month_number
from billing.prices.rating import Meter
from billing.reports.price_comparison import (
    CellSums,
    CompareBy,
    PriceCell,
    PriceDifference,
    compare,
    sums_of,
    total,
)
from billing.reports.usage_report import GroupBy, usage_in
from billing.tenants.tenancy import find_tenant
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.cli.commands import OCTOBER_MS, Command, on_database, parley, rows, used
from tests.billing.events import an_event

__all__ = ["parley"]

NANO = st.integers(-(10**18), 10**18)
SUMS = st.builds(CellSums, st.integers(0, 1 << 53), NANO, NANO, NANO)
CELLS = st.builds(
    PriceCell, st.sampled_from(["a", "b", "c"]), st.sampled_from([each.value for each in Meter])
)
MONTHS = st.dictionaries(CELLS, SUMS, max_size=12)
PARTS = ("volume_nano", "mix_nano", "price_nano", "tiers_nano", "corrections_nano")
INPUT, OUTPUT = PriceCell("a", "input"), PriceCell("a", "output")


@given(MONTHS, MONTHS, st.sampled_from(list(CompareBy)))
def test_the_parts_add_up_to_the_nano(
    before: dict[PriceCell, CellSums], after: dict[PriceCell, CellSums], by: CompareBy
) -> None:
    """Of each group, and of all groups to what the months cost; however they are grouped."""
    found = compare(before, after, by)
    for each in found.values():
        assert sum(getattr(each, part) for part in PARTS) == each.difference_nano
    whole = total(found.values())
    assert whole == total(compare(before, after).values())
    assert (whole.before_nano, whole.after_nano) == (_cost(before), _cost(after))


def _cost(month: dict[PriceCell, CellSums]) -> int:
    return sum(sums.used_nano + sums.tiers_nano + sums.corrections_nano for sums in month.values())


BASE = {INPUT: CellSums(1000, 200), OUTPUT: CellSums(500, 400)}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({INPUT: CellSums(2000, 400), OUTPUT: CellSums(1000, 800)}, {"volume_nano": 600}),
        ({INPUT: CellSums(1000, 300), OUTPUT: CellSums(500, 600)}, {"price_nano": 300}),
        ({INPUT: CellSums(500, 100), OUTPUT: CellSums(1000, 800)}, {"mix_nano": 300}),
        (
            {INPUT: CellSums(1000, 200, 7, -9), OUTPUT: CellSums(500, 400)},
            {"tiers_nano": 7, "corrections_nano": -9},
        ),
        # Twice the tokens, all of them output, at half its price.
        ({OUTPUT: CellSums(3000, 1200)}, {"volume_nano": 600, "mix_nano": 1200, "price_nano": -1200}),
        ({}, {"volume_nano": -600}),
        # Requests are no tokens: what is new of a unit is volume, of a cell mix.
        ({**BASE, PriceCell("a", "request"): CellSums(3, 30)}, {"volume_nano": 30}),
        ({**BASE, PriceCell("b", "input"): CellSums(1500, 900)}, {"volume_nano": 600, "mix_nano": 300}),
    ],
)
def test_each_part_is_what_it_says(after: dict[PriceCell, CellSums], expected: dict[str, int]) -> None:
    """One thing changes, and one part says so."""
    found = compare(BASE, after)["total"]
    assert {part: getattr(found, part) for part in PARTS if getattr(found, part)} == expected


def test_lines_are_what_their_kind_makes_them() -> None:
    """Ready seconds of pools are used though they are true-ups; what a minimum lacked is none."""
    lines = [
        ("m", "input", "usage", 10, 100),
        ("m", "input", "adjust", -4, -40),
        ("m", "input", "true_up", 0, -5),
        ("gpu", "gpu_second", "true_up", 3600, 70),
        ("", "minimum", "true_up", 0, 9),
    ]
    assert sums_of(lines) == {
        PriceCell("m", "input"): CellSums(10, 100, -5, -40),
        PriceCell("gpu", "gpu_second"): CellSums(3600, 70),
        PriceCell("", "minimum"): CellSums(0, 0, 9),
    }


def test_sums_are_read_as_postgres_writes_them() -> None:
    """A round one comes with an exponent."""
    lines = [
        ("m", "input", "usage", Decimal("1E+3"), Decimal("1.2500E+8")),
        ("m", "input", "usage", None, None),
    ]
    assert sums_of(lines) == {PriceCell("m", "input"): CellSums(1_000, 125_000_000)}


def _history(parley: Command, home: Path) -> None:
    """October with one answer, November with two, its first moment's corrected."""
    times = {
        "october": OCTOBER_MS,
        "first": Calendar(UTC_ZONE).window(month_number(2026, 11)).start_ms,
        "second": OCTOBER_MS + 33 * 86_400_000,
    }
    used(home, [an_event(name, ended_ms=ended) for name, ended in times.items()])
    fixed = ("first", "--cause", "c1", "--output", "1")
    parley("usage", "correct", "--tenant", "acme", *fixed, "--yes")


MONTHS_TYPED = ("--month", "2026-11", "--to-month", "2026-10")


def test_two_months_are_compared(parley: Command, home: Path) -> None:
    """As the books have them: by model, in all, as JSON and for people."""
    _history(parley, home)

    async def booked(database: Database) -> dict[str, int]:
        tenant = await find_tenant(database, "acme")
        assert tenant is not None
        calendar, sums = Calendar(UTC_ZONE), dict[str, int]()
        for month in ("2026-10", "2026-11"):
            window = month_window(month, calendar, 0)
            found = await usage_in(database, tenant.tenant_id, window, GroupBy.NOTHING, calendar)
            sums[month] = sum(each.amount_nano for each in found)
        return sums

    sums = on_database(home, booked)
    for by in CompareBy:
        found = rows(
            parley("usage", "compare", "--tenant", "acme", *MONTHS_TYPED, "--by", by.value, "--json")
        )
        assert {(row["month"], row["with"]) for row in found} == {("2026-11", "2026-10")}
        assert sum(row["before_nano"] for row in found) == sums["2026-10"]
        assert sum(row["after_nano"] for row in found) == sums["2026-11"]
        assert sum(row["volume_nano"] for row in found) == sums["2026-10"]  # twice as much as before
        assert sum(row["corrections_nano"] for row in found) == sums["2026-11"] - 2 * sums["2026-10"] != 0
    everybody = rows(parley("usage", "compare", *MONTHS_TYPED, "--json"))
    assert everybody == rows(parley("usage", "compare", "--tenant", "acme", *MONTHS_TYPED, "--json"))
    shown = parley("usage", "compare", *MONTHS_TYPED, "--by", "meter").stdout
    assert "corrections" in shown
    assert shown.strip().splitlines()[-1].startswith("total") or " total " in shown


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--month", "2026-13"), "is no month"),
        (("--month", "2026-10", "--to-month", "nan"), "is no month"),
        (("--month", "٢٠٢٦-١٠"), "is no month"),
        (("--month", "0001-01"), "is no month"),
        (("--month", "1970-01"), "no month before"),
        (("--month", "9999-12"), "is no month"),
        (("--month", "2026-10", "--to-month", "2026-10"), "the same month"),
        (("--tenant", "nobody"), "no tenant"),
        (("--month", "2026-10", "--to-month", "9223372036854775808"), "is no month"),
    ],
)
def test_what_cannot_be_compared_is_one_line(parley: Command, typed: tuple[str, ...], says: str) -> None:
    """And says what to write."""
    error = parley("usage", "compare", *typed).exception
    assert isinstance(error, StartupError)
    assert says in str(error)
    assert "\n" not in str(error)


def test_a_month_that_runs_says_so(parley: Command) -> None:
    """Its difference is not the last word."""
    parley("tenants", "create", "other")
    result = parley("usage", "compare", "--month", "2099-01")
    assert "2099-01, which is not over, compared with 2098-12" in result.stderr
    assert json.loads(json.dumps(rows(parley("usage", "compare", "--json")))) == []


def test_nothing_is_a_difference_of_nothing() -> None:
    """No month, no groups."""
    nothing: dict[PriceCell, CellSums] = {}
    assert compare(nothing, nothing) == {}
    assert total([]) == PriceDifference()
