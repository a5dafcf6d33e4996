"""Money as text is exact in both directions."""

from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cli.arguments import instant_of, nano_of
from billing.money import from_text, round_half_even, to_display, to_text
from core.errors import StartupError

AMOUNTS = st.integers(min_value=-(10**18), max_value=10**18)


@given(AMOUNTS)
def test_an_amount_survives_the_way_to_text_and_back(nano: int) -> None:
    """No digit is lost or made up."""
    assert from_text(to_text(nano)) == nano


@given(AMOUNTS)
def test_text_says_the_amount_exactly(nano: int) -> None:
    """The decimal that people read equals the integer."""
    assert Fraction(to_text(nano)) == Fraction(nano, 10**9)


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (0, "$0.00"),
        (12_500, "$0.0000125"),
        (1, "$0.000000001"),
        (1_500_000_000, "$1.50"),
        (-3_500_000_000, "-$3.50"),
        (-1, "-$0.000000001"),
    ],
)
def test_people_see_at_least_cents_and_never_zeros_without_meaning(nano: int, shown: str) -> None:
    """Two digits after the point, more where there is more to say."""
    assert to_display(nano) == shown


def test_a_currency_without_a_sign_of_its_own_is_named() -> None:
    """An amount never stands without its currency."""
    assert to_display(1_000_000_000, "eur") == "1.00 EUR"


@pytest.mark.parametrize(
    "text",
    ["", "1.", ".5", "1e3", "1.0000000001", "nan", "1,000", " 1", "１", "--1", "1.00\n", "10000000000"],
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    """Nothing is guessed about money."""
    with pytest.raises(ValueError, match="is no amount"):
        from_text(text)


@given(st.integers(min_value=-(10**20), max_value=10**20), st.integers(min_value=1, max_value=10**7))
def test_rounding_is_to_the_nearest_and_a_tie_to_the_even(dividend: int, divisor: int) -> None:
    """INV-11: As exact rational arithmetic rounds."""
    assert round_half_even(dividend, divisor) == round(Fraction(dividend, divisor))


@pytest.mark.parametrize(("dividend", "rounded"), [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (7, 4)])
def test_a_tie_goes_to_the_even(dividend: int, rounded: int) -> None:
    """INV-11: Neither always up nor always away from nothing."""
    assert round_half_even(dividend, 2) == round_half_even(dividend * 10**6, 2 * 10**6) == rounded


def test_an_amount_is_typed_with_its_currency_and_nothing_more() -> None:
    """Of what is typed nothing is passed over."""
    assert nano_of(" 250.00 USD ") == nano_of("250usd") == 250 * 10**9
    for text in ("250", "USD", "250 EUR", "250 USDT", "250 USD 3", "2 50 USD", "1e3 USD", "-"):
        with pytest.raises(StartupError, match="is no amount"):
            nano_of(text)


def test_a_time_is_typed_in_the_zone_that_was_chosen() -> None:
    """Where it names none of its own."""
    berlin = ZoneInfo("Europe/Berlin")
    assert instant_of("2026-10-01", berlin) == instant_of("2026-09-30T22:00:00+00:00", berlin)
    for text in ("yesterday", "2026-13-01", "", "9999-12-31T23:59:59-23:59"):
        with pytest.raises(StartupError, match="is no time"):
            instant_of(text, berlin)


def test_a_time_that_clocks_pass_over_or_show_twice_is_asked_for_with_its_offset() -> None:
    """To the second; with an offset it is one. A day begins all the same where its midnight does not."""
    berlin, cairo = ZoneInfo("Europe/Berlin"), ZoneInfo("Africa/Cairo")
    for text, says in (
        ("2027-03-28T02:00", "is no time in Europe/Berlin"),
        ("2027-03-28T02:59:59", "is no time in Europe/Berlin"),
        ("2027-10-31T02:00", "is two times in Europe/Berlin"),
        ("2027-10-31T02:59:59.999", "is two times in Europe/Berlin"),
    ):
        with pytest.raises(StartupError, match=says):
            instant_of(text, berlin)
    hour = 3_600_000
    assert instant_of("2027-03-28T03:00", berlin) == instant_of("2027-03-28T01:59:59", berlin) + 1000
    once = instant_of("2027-10-31T02:30+02:00", berlin)
    assert instant_of("2027-10-31T02:30+01:00", berlin) == once + hour
    assert instant_of("2027-10-31T03:00", berlin) - instant_of("2027-10-31T01:00", berlin) == 3 * hour
    assert instant_of("2026-04-24", cairo) == instant_of("2026-04-24T01:00", cairo)
