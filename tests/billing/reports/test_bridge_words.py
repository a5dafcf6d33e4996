"""Why two months differ, in words: what moved is named, and nothing is said that the numbers do not."""

from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import NANO
from billing.periods import Calendar, month_number
from billing.prices.rating import Meter
from billing.reports.bridge_windows import BridgeAgainst, bridge_spans, days_in
from billing.reports.bridge_words import BridgeFacts, bridge_words
from billing.reports.price_comparison import CellSums, Month, PriceCell
from billing.reports.random_months import comparison_remainders
from billing.reports.spend_words import amount_of, cents, change, share

MONTHS = (month_number(2026, 10), month_number(2026, 11))
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "America/Havana")


def words(before: Month, after: Month, **facts: object) -> dict[str, str]:
    """The words of an open November after October."""
    return bridge_words(BridgeFacts(before, after, MONTHS, closed=False, **facts))  # type: ignore[arg-type]


def of(model: str, tokens: int, nano: int, meter: str = "input", **booked: int) -> dict[PriceCell, CellSums]:
    """A month of one cell."""
    return {PriceCell(model, meter): CellSums(tokens, nano, **booked)}


def test_more_of_the_same_is_volume() -> None:
    """With how many tokens there were before and after."""
    found = words(of("m", 89 * 10**9, 10), of("m", 1075 * 10**8, 12))
    assert found["volume"] == "18.5 B more tokens (89.0 B to 108 B) at October\u2019s average prices"
    assert found["mix"] == "Models and kinds of tokens have the same shares"
    assert found["tiers"] == "Worked out when November closes"
    assert found["corrections"] == "None"
    fewer = words(of("m", 2_000_000, 10), of("m", 999_999, 5))
    assert fewer["volume"].startswith("1.0 M fewer tokens (2.0 M to 999,999)")
    assert words({}, of("m", 5, 1))["volume"] == "5 tokens after none in October"
    assert words({}, {})["volume"] == "No tokens in either month"


def test_other_units_that_moved_money_are_said_too() -> None:
    """Of a pool's time, in money, as its seconds are no tokens."""
    before, after = of("GPU h100", 10, NANO, "gpu_second"), of("GPU h100", 30, 3 * NANO, "gpu_second")
    assert words(before, after)["volume"] == "No tokens in either month; GPU-seconds +2.00"


def test_the_mix_names_the_model_whose_share_moved_most() -> None:
    """Or the kind of tokens, where there is one model."""
    found = words(
        {**of("dear", 400, 4000), **of("cheap", 600, 600)}, {**of("dear", 100, 1000), **of("cheap", 900, 900)}
    )
    assert found["mix"] == (
        "cheap took 90.0 % of tokens after 60.0 %; cheaper models and kinds of tokens took more"
    )
    one = words(
        {**of("m", 500, 500), **of("m", 500, 5000, "output")},
        {**of("m", 250, 250), **of("m", 750, 7500, "output")},
    )
    assert one["mix"].startswith("input took 25.0 % of tokens after 50.0 %; dearer")


def test_prices_name_the_version_and_what_it_moved_most() -> None:
    """At most two models; the others are counted."""
    before = {cell: sums for model in "abc" for cell, sums in of(model, 1000, 100 * NANO).items()}
    after = {
        cell: sums
        for model, nano in (("a", 90), ("b", 130), ("c", 101))
        for cell, sums in of(model, 1000, nano * NANO).items()
    }
    found = words(before, after, version=(14, "2026-11-10"))
    assert found["price"] == "Version 14 since 2026-11-10: b +30.00, a \u221210.00 and 1 more"
    assert words(before, before)["price"] == "No price changed"
    assert words(before, before, version=(2, "2026-11-01"))["price"].endswith("nothing that was used")


def test_tiers_and_corrections_are_told_by_month_and_day() -> None:
    """What was given back and what was added."""
    found = words({}, {}, tiers_before_nano=-41_210_000_000, corrected=((), [("2026-11-13", -84 * NANO)]))
    assert found["tiers"] == "Worked out when November closes; October got 41.21 back on its last day"
    assert found["corrections"] == "Refund of 2026-11-13"
    days = [(f"2026-10-0{day}", NANO) for day in range(1, 6)]
    closed = BridgeFacts(
        {}, of("m", 0, 0, tiers_nano=NANO), MONTHS, closed=True, corrected=(days, [("2026-11-02", 5)])
    )
    told = bridge_words(closed)
    assert told["tiers"] == "November had 1.00 added on its last day"
    assert told["corrections"] == (
        "Correction of 2026-11-02; October: corrections of 2026-10-01, 2026-10-02, 2026-10-03 and 2 more days"
    )


CELLS = st.dictionaries(
    st.builds(PriceCell, st.sampled_from(["a", "b"]), st.sampled_from([each.value for each in Meter])),
    st.builds(CellSums, st.integers(0, 10**15), *[st.integers(-(10**15), 10**15)] * 3),
    max_size=8,
)


@given(CELLS, CELLS, st.booleans())
def test_whatever_the_months_are_each_part_has_words(before: Month, after: Month, closed: bool) -> None:
    """A line each, without an empty place in it."""
    for text in bridge_words(BridgeFacts(before, after, MONTHS, closed=closed)).values():
        assert text.strip()
        assert "\n" not in text
        assert "  " not in text


def test_parts_of_a_thousand_random_pairs_add_up() -> None:
    """To the nano, by whatever they are grouped."""
    assert set(comparison_remainders(1000, seed=7)) == {0}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("month", [(2026, 3), (2026, 10), (2026, 11), (2027, 2)])
def test_days_tile_their_month_and_spans_are_whole_days(zone: str, month: tuple[int, int]) -> None:
    """Also where clocks are turned; never a part of a day, never today."""
    calendar, number = Calendar(ZoneInfo(zone)), month_number(*month)
    days, window = days_in(calendar, number), calendar.window(number)
    assert (days[0].start_ms, days[-1].end_ms) == window
    assert all(one.end_ms == other.start_ms for one, other in pairwise(days))
    for day in days:
        spans = bridge_spans(calendar, number, None, day.start_ms + 5)
        past = days.index(day)
        assert spans.after.days == min(past, len(days_in(calendar, number - 1)))
        assert spans.before.days == spans.after.days
        assert spans.after.window.end_ms <= day.start_ms
        assert spans.open_day
    over = bridge_spans(calendar, number, None, window.end_ms)
    assert (over.against, over.after.window, over.open_day) == (BridgeAgainst.MONTH, window, False)
    ahead = bridge_spans(calendar, number, BridgeAgainst.SAME_DAYS, window.start_ms - 1)
    assert (ahead.after.days, ahead.open_day) == (0, False)


def test_amounts_and_counts_are_written_for_people() -> None:
    """Cents half to even, three digits of what is large, whole tenths of a per cent."""
    assert [cents(each) for each in (5_000_000, 15_000_000, -5_000_001, -5_000_000, 1_234_567 * NANO)] == [
        "0.00",
        "0.02",
        "\u22120.01",
        "0.00",
        "1,234,567.00",
    ]
    assert [change(each) for each in (NANO, 0, 1, -NANO)] == ["+1.00", "0.00", "0.00", "\u22121.00"]
    assert [amount_of(each) for each in (999_999, 94_150_000, 108 * 10**9, -(10**12), 0)] == [
        "999,999",
        "94.2 M",
        "108 B",
        "\u22121.0 T",
        "0",
    ]
    assert (share(447, 1000), share(1, 0)) == ("44.7 %", "0.0 %")
