"""Tiers: what a quantity costs, known answers and what always holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import NANO
from billing.prices.files import gpus_of, parse, tiers_of
from billing.prices.rating import Meter
from billing.prices.tiers import QUANTITY_MAX, Tier, TierMode, TierPrices, check, cost_of

MILLION = 1_000_000
STEPS = (Tier(10 * MILLION, 3 * NANO), Tier(100 * MILLION, 2 * NANO), Tier(None, NANO))
GRADUATED = TierPrices(TierMode.GRADUATED, STEPS)
VOLUME = TierPrices(TierMode.VOLUME, STEPS)
PACKAGE = TierPrices(TierMode.PACKAGE, (Tier(1000, 5 * NANO),))

FILE = """
book = "gold"
[models.large]
input = "1.00"
output = "3.00"
request = "0.01"
[models.large.tiers.output]
mode = "graduated"
steps = [{ up_to = 10_000_000, price = "3.00" }, { up_to = 100_000_000, price = "2.00" }, { percent = 50 }]
minimum = "50.00"
[models.large.tiers.request]
mode = "package"
units = 1000
price = "5"
[models.large.tiers.input]
minimum = "1"
[gpus.h200]
hour = "3.60"
"""


@pytest.mark.parametrize(
    ("quantity", "graduated", "volume"),
    [
        (0, 0, 0),
        (1, 3_000, 3_000),
        (10 * MILLION, 30 * NANO, 30 * NANO),
        (10 * MILLION + 1, 30 * NANO + 2_000, 20 * NANO + 2_000),
        (100 * MILLION, 210 * NANO, 200 * NANO),
        (150 * MILLION, 260 * NANO, 150 * NANO),
    ],
)
def test_graduated_and_volume_prices_have_known_answers(quantity: int, graduated: int, volume: int) -> None:
    """3 dollars a million up to ten millions, 2 up to a hundred, then 1: bounds belong to the tier below."""
    assert cost_of(quantity, GRADUATED, 0) == graduated
    assert cost_of(quantity, VOLUME, 0) == volume


@pytest.mark.parametrize(
    ("quantity", "packages"), [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (10_000, 10)]
)
def test_a_package_that_was_begun_is_paid(quantity: int, packages: int) -> None:
    """5 dollars for each thousand."""
    assert cost_of(quantity, PACKAGE, 0) == packages * 5 * NANO


bounds = st.lists(st.integers(1, QUANTITY_MAX - 1), min_size=0, max_size=5, unique=True).map(sorted)
graduations = bounds.flatmap(
    lambda ends: st.lists(st.integers(0, 1000 * NANO), min_size=len(ends) + 1, max_size=len(ends) + 1).map(
        lambda prices: tuple(Tier(end, price) for end, price in zip([*ends, None], prices, strict=True))
    )
)


# Together 10^12 units of at most 1000 USD a million: what the books can hold.
@given(graduations, st.integers(0, 5 * 10**11), st.integers(0, 5 * 10**11))
def test_more_never_costs_less_in_graduated_tiers(tiers: tuple[Tier, ...], less: int, more: int) -> None:
    """Whatever the prices are: no unit takes back what another cost."""
    prices = TierPrices(TierMode.GRADUATED, tiers)
    check(prices)
    assert cost_of(less, prices, 0) <= cost_of(less + more, prices, 0)


@given(graduations, st.integers(0, 10**12))
def test_graduated_tiers_of_one_price_are_flat(tiers: tuple[Tier, ...], quantity: int) -> None:
    """Bounds alone change nothing, to the nano."""
    same = tuple(Tier(tier.up_to, tiers[0].price_nano) for tier in tiers)
    one = (Tier(None, tiers[0].price_nano),)
    for mode in (TierMode.GRADUATED, TierMode.VOLUME):
        whole = cost_of(quantity, TierPrices(mode, one), 0)
        assert cost_of(quantity, TierPrices(mode, same), 0) == whole


@pytest.mark.parametrize(
    "tiers",
    [
        TierPrices(TierMode.GRADUATED, (Tier(5, -1), Tier(None, 1))),
        TierPrices(TierMode.GRADUATED, (Tier(None, 1),), -1),
        TierPrices(TierMode.GRADUATED, ()),
        TierPrices(TierMode.VOLUME, (Tier(5, 1),)),
        TierPrices(TierMode.VOLUME, (Tier(5, 1), Tier(5, 2), Tier(None, 1))),
        TierPrices(TierMode.GRADUATED, (Tier(5, 1), Tier(4, 2), Tier(None, 1))),
        TierPrices(TierMode.GRADUATED, (Tier(None, 1), Tier(None, 2))),
        TierPrices(TierMode.GRADUATED, (Tier(0, 1), Tier(None, 2))),
        TierPrices(TierMode.GRADUATED, (Tier(QUANTITY_MAX, 1), Tier(None, 2))),
        TierPrices(TierMode.PACKAGE, (Tier(0, 1),)),
        TierPrices(TierMode.PACKAGE, (Tier(None, 1),)),
        TierPrices(TierMode.FLAT, (Tier(None, 1),)),
        TierPrices(TierMode.GRADUATED, (*(Tier(n, 1) for n in range(1, 21)), Tier(None, 1))),
    ],
)
def test_what_is_no_tiers_is_refused(tiers: TierPrices) -> None:
    """Bounds. No negative prices, no tiers that overlap, are not in order or have no end."""
    with pytest.raises(ValueError, match=r"."):
        check(tiers)


@pytest.mark.parametrize(
    "tiers",
    [
        TierPrices(TierMode.GRADUATED, (*(Tier(n, 1) for n in range(1, 20)), Tier(None, 1))),
        TierPrices(TierMode.VOLUME, (Tier(1, 0), Tier(QUANTITY_MAX - 1, 0), Tier(None, 0)), 0),
        TierPrices(TierMode.PACKAGE, (Tier(1, 0),)),
        TierPrices(TierMode.PACKAGE, (Tier(QUANTITY_MAX - 1, 0),)),
        TierPrices(TierMode.FLAT, (), 0),
    ],
)
def test_what_is_just_tiers_is_taken(tiers: TierPrices) -> None:
    """Twenty of them, of one unit up to the most that are counted, for nothing."""
    check(tiers)


def test_the_books_hold_so_much_and_no_more() -> None:
    """A billion dollars and some, either way; packages of as many as there can be are none."""
    most = 1 << 60
    flat = TierPrices(TierMode.FLAT)
    assert [cost_of(0, flat, nano) for nano in (most, -most)] == [most, -most]
    for nano in (most + 1, -most - 1):
        with pytest.raises(ValueError, match="more than the books hold"):
            cost_of(0, flat, nano)
    with pytest.raises(ValueError, match="size of at least 1"):
        check(TierPrices(TierMode.PACKAGE, (Tier(QUANTITY_MAX, 1),)))
    with pytest.raises(ValueError, match="size of at least 1"):
        check(TierPrices(TierMode.PACKAGE, (Tier(1, 1), Tier(2, 1))))
    assert QUANTITY_MAX == 1 << 53


def test_an_amount_that_no_book_holds_is_refused() -> None:
    """A trillion-dollar month is an error, not a bill. Nor is a quantity negative."""
    dear = TierPrices(TierMode.VOLUME, (Tier(None, 9_000_000_000_000_000),))
    with pytest.raises(ValueError, match="more than the books hold"):
        cost_of(QUANTITY_MAX, dear, 0)
    with pytest.raises(ValueError, match="negative"):
        cost_of(-1, GRADUATED, 0)


def test_tiers_in_a_file_are_read_to_the_nano() -> None:
    """Tokens for a million, requests for one, a package as a whole; per cents are of the flat price."""
    file, _ = parse(FILE)
    tiers = tiers_of(file)
    last = Tier(None, 1_500_000_000)
    assert tiers["large", Meter.OUTPUT] == TierPrices(TierMode.GRADUATED, (*STEPS[:2], last), 50 * NANO)
    assert tiers["large", Meter.REQUEST] == TierPrices(TierMode.PACKAGE, (Tier(1000, 5 * NANO),))
    assert tiers["large", Meter.INPUT] == TierPrices(TierMode.FLAT, (), NANO)
    assert gpus_of(file) == {"h200": 1000 * NANO}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('price = "2.00"', 'price = "-2.00"'), "models.large.tiers.output.steps"),
        (("percent = 50", "percent = 150"), "150 % is not from 0 to 100"),
        (("percent = 50", "percent = -1"), "-1 % is not from 0 to 100"),
        (("percent = 50", 'percent = 50, price = "1"'), "not both"),
        (("{ percent = 50 }", "{ }"), "not both"),
        (("up_to = 100_000_000", "up_to = 10_000_000"), "does not lie above"),
        (("up_to = 10_000_000, ", ""), "only the last tier"),
        (("{ percent = 50 }", "{ percent = 50, up_to = 200_000_000 }"), "the last tier"),
        (("units = 1000", "units = 0"), "size of at least 1"),
        (("units = 1000", ""), "a package has units"),
        (('minimum = "50.00"', 'minimum = "-1"'), "models.large.tiers.output.minimum"),
        (("tiers.output", "tiers.reasoning"), "tiers are of input, cached_input, output, request"),
        (("graduated", "percentage"), "percentage"),
        (('hour = "3.60"', 'hour = "-1"'), "gpus.h200.hour"),
        (('hour = "3.60"', 'hour = "99999"'), "gpus.h200.hour"),
    ],
)
def test_what_is_no_price_is_refused_with_its_place(change: tuple[str, str], says: str) -> None:
    """No negative price, no percentage over a hundred, no tiers that overlap."""
    with pytest.raises(ValueError, match=r".") as refused:
        tiers_and_gpus(FILE.replace(*change))
    assert says in str(refused.value)


def tiers_and_gpus(text: str) -> None:
    """Read all of a file."""
    file, _ = parse(text)
    tiers_of(file)
    gpus_of(file)
