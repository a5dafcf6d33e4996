"""Cost of a period's whole quantity of one meter: graduated, volume or package prices, or flat ones with a
minimum. Pure. It is a function of the sum alone, so the order of events never matters.

An amount is rounded once, half to even, for all tiers together.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from billing.money import UNITS, round_half_even

QUANTITY_MAX = 1 << 53
AMOUNT_NANO_MAX = 1 << 60  # a billion dollars, far below what a BIGINT holds
TIERS_MAX = 20


class TierMode(StrEnum):
    """Rule by which tiers price a quantity.

    FLAT: the flat price decides. GRADUATED: each tier prices the units inside it. VOLUME: all units have the
    price of the last unit's tier. PACKAGE: by packages begun."""

    FLAT = "flat"
    GRADUATED = "graduated"
    VOLUME = "volume"
    PACKAGE = "package"


class Tier(msgspec.Struct, frozen=True):
    """Units above the tier before, up to and including `up_to` (None: all above). `price_nano` is per
    1,000,000 units; of a package, `up_to` is its size and `price_nano` the price of one package."""

    up_to: int | None
    price_nano: int


class TierPrices(msgspec.Struct, frozen=True):
    """The tiers of one meter, in order. `minimum_nano`: the least cost of a period in which it was used."""

    mode: TierMode
    tiers: tuple[Tier, ...] = ()
    minimum_nano: int = 0


def check(prices: TierPrices) -> None:
    """Raises ValueError where the tiers are invalid: negative, out of order, without an open end, too
    many."""
    if prices.minimum_nano < 0 or any(tier.price_nano < 0 for tier in prices.tiers):
        raise ValueError("a price is negative")
    if len(prices.tiers) > TIERS_MAX:
        raise ValueError(f"at most {TIERS_MAX} tiers")
    bounds = [tier.up_to for tier in prices.tiers]
    match prices.mode:
        case TierMode.FLAT:
            if bounds:
                raise ValueError("flat prices have no tiers")
        case TierMode.PACKAGE:
            if len(bounds) != 1 or bounds[0] is None or not 1 <= bounds[0] < QUANTITY_MAX:
                raise ValueError("a package has a size of at least 1 unit")
        case TierMode.GRADUATED | TierMode.VOLUME:
            _check_bounds(bounds)


def _check_bounds(bounds: Sequence[int | None]) -> None:
    if not bounds or bounds[-1] is not None:
        raise ValueError("the last tier, and only that, is without up_to: it has all units above")
    before = 0
    for bound in bounds[:-1]:
        if bound is None:
            raise ValueError("only the last tier is without up_to")
        if not before < bound < QUANTITY_MAX:
            raise ValueError(f"up_to {bound} does not lie above the tier before ({before})")
        before = bound


def cost_of(quantity: int, prices: TierPrices, flat_nano: int) -> int:
    """Cost of a period's quantity in nano-USD, without the minimum. `flat_nano`: sum of its lines.

    Raises ValueError for a negative quantity or an amount that no book can hold."""
    if quantity < 0:
        raise ValueError("a quantity is negative")
    match prices.mode:
        case TierMode.FLAT:
            amount = flat_nano
        case TierMode.GRADUATED:
            amount = round_half_even(_graduated(quantity, prices.tiers), UNITS)
        case TierMode.VOLUME:
            amount = round_half_even(quantity * _tier_of(quantity, prices.tiers).price_nano, UNITS)
        case TierMode.PACKAGE:
            size = prices.tiers[0].up_to or 1
            amount = -(-quantity // size) * prices.tiers[0].price_nano
    return checked_amount(amount)


def checked_amount(amount_nano: int) -> int:
    """Return the amount. Raises ValueError for one that no book should hold."""
    if abs(amount_nano) > AMOUNT_NANO_MAX:
        raise ValueError(f"an amount of {amount_nano} nano is more than the books hold")
    return amount_nano


def _graduated(quantity: int, tiers: Sequence[Tier]) -> int:
    total, before = 0, 0
    for tier in tiers:
        end = quantity if tier.up_to is None else min(quantity, tier.up_to)
        total += max(0, end - before) * tier.price_nano
        before = end
    return total


def _tier_of(quantity: int, tiers: Sequence[Tier]) -> Tier:
    return next(tier for tier in tiers if tier.up_to is None or quantity <= tier.up_to)
