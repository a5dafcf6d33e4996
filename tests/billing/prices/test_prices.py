"""Rating is exact, and sums are sums of lines."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.prices.rating import Counts, Meter, rate
from billing.usage import PinnedPrices

QUANTITIES = st.integers(min_value=0, max_value=10**9)
NANO = st.integers(min_value=0, max_value=10**13)
COUNTS = st.builds(Counts, QUANTITIES, QUANTITIES, QUANTITIES, QUANTITIES)
PRICES = st.builds(PinnedPrices, st.just("b"), st.just(1), NANO, NANO, NANO, NANO)


@given(COUNTS, PRICES)
def test_a_total_is_the_sum_of_its_lines_each_rounded_once(counts: Counts, prices: PinnedPrices) -> None:
    """Every line is quantity times price, exactly, rounded half to even."""
    lines, total = rate(counts, prices)
    assert total == sum(line.amount_nano for line in lines)
    for line in lines:
        assert line.amount_nano == round(Fraction(line.quantity * line.price_nano, 1_000_000))


@given(COUNTS, PRICES)
def test_every_used_class_has_one_line_with_its_own_quantity(counts: Counts, prices: PinnedPrices) -> None:
    """Classes are disjoint, no token is in two lines, none in no line."""
    lines, _ = rate(counts, prices)
    quantities = {line.meter: line.quantity for line in lines}
    assert len(quantities) == len(lines)
    assert quantities == {
        meter: quantity
        for meter, quantity in (
            (Meter.INPUT, counts.input_uncached),
            (Meter.CACHED_INPUT, counts.input_cached),
            (Meter.OUTPUT, counts.output_text),
            (Meter.REASONING, counts.output_reasoning),
            (Meter.REQUEST, counts.requests),
        )
        if quantity
    }


@given(PRICES)
def test_what_used_nothing_costs_nothing(prices: PinnedPrices) -> None:
    """A request that never ran is not charged as a request either."""
    assert rate(Counts(), prices) == ([], 0)


def test_half_a_nano_goes_to_the_even_neighbour() -> None:
    """Neither the tenant nor the platform gains by rounding in the long run."""
    prices = PinnedPrices("b", 1, input_nano=500_000, cached_input_nano=1_500_000, output_nano=0)
    lines, total = rate(Counts(input_uncached=1, input_cached=1), prices)
    assert [line.amount_nano for line in lines] == [0, 2, 0]
    assert total == 2


def test_negative_quantities_and_prices_are_refused() -> None:
    """A line never pays out; corrections are lines of their own."""
    with pytest.raises(ValueError, match="quantity is negative"):
        Counts(input_uncached=-1)
    with pytest.raises(ValueError, match="price is negative"):
        rate(Counts(input_uncached=1), PinnedPrices("b", 1, -1, 0, 0))
