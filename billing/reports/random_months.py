"""Random pairs of months, and how far the parts of their difference are from adding up to it. Pure."""

import random
from collections.abc import Iterator

from billing.prices.rating import Meter
from billing.reports.price_comparison import (
    CellSums,
    CompareBy,
    Month,
    PriceCell,
    PriceDifference,
    compare,
    total,
)

MODELS = tuple(f"model-{number}" for number in range(12))
QUANTITY_MAX = 10**13
PRICE_MAX = 10**9  # nano for a million units: a dollar
BOOKED_MAX = 10**13
MODELS_USED = 0.7
METERS_USED = 0.6


def comparison_remainders(pairs: int, seed: int) -> list[int]:
    """The remainder, in nano, of each of so many pairs; 0: its parts add up."""
    return [remainder(*pair) for pair in months(pairs, random.Random(seed))]


def months(pairs: int, chosen: random.Random) -> Iterator[tuple[Month, Month]]:
    """Yield random pairs of months, whose prices are alike or not."""
    for _ in range(pairs):
        prices = {cell: chosen.randrange(PRICE_MAX) for cell in _cells()}
        later = prices if chosen.random() < 0.5 else {cell: chosen.randrange(PRICE_MAX) for cell in prices}
        yield _month(prices, chosen), _month(later, chosen)


def _cells() -> list[PriceCell]:
    return [PriceCell(model, meter.value) for model in MODELS for meter in Meter]


def _month(prices: dict[PriceCell, int], chosen: random.Random) -> Month:
    used = {model for model in MODELS if chosen.random() < MODELS_USED}
    return {
        cell: _sums(price, chosen)
        for cell, price in prices.items()
        if cell.model in used and chosen.random() < METERS_USED
    }


def _sums(price: int, chosen: random.Random) -> CellSums:
    quantity = chosen.choice((0, 1, chosen.randrange(QUANTITY_MAX)))
    tiers, corrections = (
        chosen.choice((0, 0, chosen.randrange(-BOOKED_MAX, BOOKED_MAX))) for _ in ("tiers", "corrections")
    )
    # Lines are rounded one by one, so that a sum is not quite quantity times price.
    used = quantity * price // 1_000_000 + chosen.randrange(1 + min(quantity, 1000))
    return CellSums(quantity, used, tiers, corrections)


def remainder(before: Month, after: Month) -> int:
    """The largest difference, in nano, between what parts or groups add up to and what they should."""
    costs = [sum(sums.amount_nano for sums in month.values()) for month in (before, after)]
    found = 0
    for by in CompareBy:
        groups = compare(before, after, by)
        whole = total(groups.values())
        apart = [_parts(each) - each.difference_nano for each in (whole, *groups.values())]
        apart += [whole.before_nano - costs[0], whole.after_nano - costs[1]]
        found = max(found, *(abs(each) for each in apart))
    return found


def _parts(each: PriceDifference) -> int:
    return each.volume_nano + each.mix_nano + each.price_nano + each.tiers_nano + each.corrections_nano
