"""The true-up as a function of sums: order and batches change nothing, each version prices its own."""

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import NANO, UNITS, round_half_even
from billing.prices.rating import Meter
from billing.prices.tiers import Tier, TierMode, TierPrices, cost_of
from billing.prices.true_up import (
    LACKING,
    CommittedInPeriod,
    PeriodSums,
    TrueUp,
    TrueUpKey,
    VersionPrices,
    true_up,
)

MILLION = 1_000_000
METERS = (Meter.INPUT, Meter.CACHED_INPUT, Meter.OUTPUT)
FLAT_NANO = {Meter.INPUT: 1_000_003, Meter.CACHED_INPUT: 250_001, Meter.OUTPUT: 4_000_007}


def a_version(valid_from_ms: int = 0, **tiers: TierPrices) -> VersionPrices:
    """Flat prices for any model and tiers by the name of their meter."""
    flat = {("*", meter): nano for meter, nano in FLAT_NANO.items()}
    return VersionPrices(valid_from_ms, flat, {("*", Meter(name)): each for name, each in tiers.items()})


def graduated(*steps: tuple[int | None, int], minimum_nano: int = 0) -> TierPrices:
    """Tiers of (up to, nano)."""
    return TierPrices(TierMode.GRADUATED, tuple(Tier(*step) for step in steps), minimum_nano)


VERSIONS = {
    ("b", 1): a_version(
        0,
        output=graduated((1_000, 4_000_007), (50_000, 3_000_001), (None, 2_000_003)),
        input=TierPrices(TierMode.VOLUME, (Tier(10_000, 999_999), Tier(None, 500_001))),
    ),
    ("b", 2): a_version(
        1_000,
        output=graduated((30_000, 1_000_001), (None, 7), minimum_nano=50_000),
        cached_input=TierPrices(TierMode.PACKAGE, (Tier(777, 12_345),)),
    ),
}

events = st.lists(
    st.tuples(
        st.sampled_from(("small", "large")),
        st.sampled_from(METERS),
        st.sampled_from((1, 2)),
        st.integers(0, 20_000),
    ),
    max_size=60,
)
Event = tuple[str, Meter, int, int]


def sums_of(events: Iterable[Event]) -> dict[TrueUpKey, PeriodSums]:
    """What their lines say: each rounded for itself."""
    found: dict[TrueUpKey, PeriodSums] = {}
    for model, meter, version, quantity in events:
        amount = round_half_even(quantity * FLAT_NANO[meter], UNITS)
        key = TrueUpKey(model, meter, "b", version)
        found[key] = found.get(key, PeriodSums()) + PeriodSums(quantity, amount, amount)
    return found


def booked(sums: dict[TrueUpKey, PeriodSums], lines: Sequence[TrueUp]) -> dict[TrueUpKey, PeriodSums]:
    """The sums after a true-up was posted."""
    after = dict(sums)
    for line in lines:
        after[line.key] = after.get(line.key, PeriodSums()) + PeriodSums(0, 0, line.difference_nano)
    return after


def total(sums: dict[TrueUpKey, PeriodSums]) -> int:
    """What the period costs by its lines."""
    return sum(each.posted_nano for each in sums.values())


def one_shot(events: Sequence[Event]) -> int:
    """What the sums cost at once, by a plain reading of the price list."""
    cost = 0
    for model in ("small", "large"):
        for meter in METERS:
            of_meter, minimum = 0, 0
            for version in (1, 2):
                own = [event for event in events if event[:3] == (model, meter, version)]
                quantity = sum(event[3] for event in own)
                tiers = VERSIONS["b", version].tiers.get(("*", meter))
                flat = sum(round_half_even(event[3] * FLAT_NANO[meter], UNITS) for event in own)
                of_meter += flat if tiers is None else cost_of(quantity, tiers, flat)
                if quantity:
                    minimum = tiers.minimum_nano if tiers else 0
            cost += max(of_meter, minimum)
    return cost


@given(events, st.integers(0, 1 << 30))
def test_any_order_and_any_batches_give_what_one_shot_gives(events: list[Event], seed: int) -> None:
    """Nothing that was ingested goes unrated. A true-up after each batch, or one at the end."""
    chosen = random.Random(seed)
    mixed = chosen.sample(events, len(events))
    sums: dict[TrueUpKey, PeriodSums] = {}
    while mixed:
        size = chosen.randint(1, len(mixed))
        for key, each in sums_of(mixed[:size]).items():
            sums[key] = sums.get(key, PeriodSums()) + each
        mixed = mixed[size:]
        if chosen.random() < 0.5:
            sums = booked(sums, true_up(sums, VERSIONS))
    sums = booked(sums, true_up(sums, VERSIONS))
    assert total(sums) == one_shot(events)
    whole = sums_of(events)
    assert total(booked(whole, true_up(whole, VERSIONS))) == one_shot(events)


@given(events)
def test_a_second_true_up_finds_nothing(events: list[Event]) -> None:
    """Run again, it charges nothing again."""
    committed = (CommittedInPeriod(10 * NANO), CommittedInPeriod(5_000, "*", Meter.OUTPUT, 30_000, 3))
    sums = sums_of(events)
    sums = booked(sums, true_up(sums, VERSIONS, committed))
    assert [line for line in true_up(sums, VERSIONS, committed) if line.difference_nano] == []


def test_each_version_prices_what_was_admitted_under_it() -> None:
    """A change in the middle of a month: each version's tiers begin anew, and the newest one's minimum holds
    for both."""
    sums = sums_of([("m", Meter.OUTPUT, 1, 1_500), ("m", Meter.OUTPUT, 2, 1_000)])
    first, second = true_up(sums, VERSIONS)
    assert (first.key.version, first.quantity, first.cost_nano) == (1, 1_500, 4_000 + 1_500)
    assert (second.key.version, second.quantity, second.why) == (2, 1_000, "minimum")
    assert first.cost_nano + second.cost_nano == 50_000
    assert second.difference_nano == 50_000 - 5_500 - 4_000


def test_a_model_with_a_price_of_its_own_has_no_tiers_of_any_model() -> None:
    """What a version names goes before what it says of all others, as at admission."""
    named = VersionPrices(
        0,
        {("*", Meter.OUTPUT): 4_000_007, ("m", Meter.OUTPUT): 4_000_007},
        {("*", Meter.OUTPUT): graduated((None, 0))},
    )
    sums = sums_of([("m", Meter.OUTPUT, 1, MILLION), ("other", Meter.OUTPUT, 1, MILLION)])
    (line,) = true_up(sums, {("b", 1): named})
    assert (line.key.model, line.cost_nano, line.difference_nano) == ("other", 0, -4_000_007)


def test_reasoning_is_counted_with_output() -> None:
    """Reasoning is neither unpriced nor in tiers of its own."""
    flat = {
        TrueUpKey("m", Meter.OUTPUT, "b", 1): PeriodSums(600, 6, 6),
        TrueUpKey("m", Meter.REASONING, "b", 1): PeriodSums(600, 6, 6),
    }
    (line,) = true_up(flat, VERSIONS)
    assert (line.key.meter, line.quantity) == (Meter.OUTPUT, 1_200)
    assert (line.cost_nano, line.posted_nano) == (
        cost_of(1_200, graduated((1_000, 4_000_007), (None, 3_000_001)), 0),
        12,
    )


@pytest.mark.parametrize(
    ("quantity", "costs"),
    [(0, 500), (900, 500), (1_000, 500), (1_010, 500 + 20), (11_000, 500 + 20_000)],
)
def test_what_was_committed_to_comes_first_then_overage(quantity: int, costs: int) -> None:
    """A thousand units for 500 nano whether used or not; each above for 2 nano."""
    sums = sums_of([("m", Meter.OUTPUT, 1, quantity)])
    committed = [CommittedInPeriod(500, "m", Meter.OUTPUT, 1_000, 2 * MILLION)]
    sums = booked(sums, true_up(sums, VERSIONS, committed))
    assert total(sums) == costs


def test_beyond_a_commitment_the_book_prices_what_is_left() -> None:
    """Without an overage price: by tiers, else flat; the oldest version's units are covered first."""
    sums = sums_of([("m", Meter.OUTPUT, 1, 900), ("m", Meter.OUTPUT, 2, 1_100)])
    lines = true_up(sums, VERSIONS, [CommittedInPeriod(500, "*", Meter.OUTPUT, 1_000)])
    assert {line.key.version: line.cost_nano for line in lines} == {1: 0, 2: 1_000, 0: 500}
    sums = sums_of([("m", Meter.CACHED_INPUT, 1, 3_000)])
    lines = true_up(sums, VERSIONS, [CommittedInPeriod(500, "m", Meter.CACHED_INPUT, 1_000)])
    assert [line.cost_nano for line in lines] == [500, 500]


@given(events, st.integers(0, 10**6))
def test_a_tenant_pays_at_least_what_it_committed_to(events: list[Event], least: int) -> None:
    """And not more than its use where that is more, whatever was booked before."""
    sums = sums_of(events)
    sums = booked(sums, true_up(sums, VERSIONS))
    spent = total(sums)
    sums = booked(sums, true_up(sums, VERSIONS, [CommittedInPeriod(least)]))
    assert total(sums) == max(spent, least)
    late = booked(sums, [TrueUp(TrueUpKey("m", Meter.GPU_SECOND, "", 0), 0, 0, 700, "")])
    late = booked(late, true_up(late, VERSIONS, [CommittedInPeriod(least)]))
    assert total(late) == max(spent + 700, least)
    assert late.get(LACKING, PeriodSums()).posted_nano == max(0, least - spent - 700)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_more_use_never_makes_a_month_of_graduated_prices_cheaper(some: int, more: int) -> None:
    """With a minimum and a commitment too."""
    versions = {("b", 1): VERSIONS["b", 2]}
    committed = [CommittedInPeriod(70_000)]

    def month(quantity: int) -> int:
        sums = sums_of([("m", Meter.OUTPUT, 1, quantity)])
        return total(booked(sums, true_up(sums, versions, committed)))

    assert month(some) <= month(some + more)
