"""Tiers, minimums and prices of GPUs in price files, and the parsing of their amounts. Pure."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.money import UNITS, from_text, round_half_even, to_text
from billing.prices.rating import Meter
from billing.prices.tiers import TIERS_MAX, Tier, TierMode, TierPrices, check

PRICE_NANO_MAX = 9_000_000_000_000_000  # below 2^53, which Redis scripts count exactly
HOUR_SECONDS = 3_600
TIERED = (Meter.INPUT, Meter.CACHED_INPUT, Meter.OUTPUT, Meter.REQUEST)

TierKey = tuple[str, Meter]  # model or `*`, meter


class WrittenTier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tier: a price, or per cents of the flat price."""

    up_to: int | None = None
    price: str | None = None
    percent: int | None = None


class WrittenTiers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tiers of one meter. Graduated and volume have `steps`, a package `units` and `price`."""

    mode: TierMode = TierMode.FLAT
    steps: Annotated[list[WrittenTier], Meta(max_length=TIERS_MAX)] = []
    units: int | None = None
    price: str | None = None
    minimum: str = "0"


class WrittenGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Price of an hour of one GPU of a dedicated pool."""

    hour: str


def price_nano(place: str, text: str, times: int) -> int:
    """Parse an amount and multiply it by its units. Raises ValueError with its place where it is invalid."""
    try:
        nano = from_text(text) * times
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    if not 0 <= nano <= PRICE_NANO_MAX:
        most = to_text(PRICE_NANO_MAX // times)
        raise ValueError(f"{place}: {text} is not from 0 to {most}")
    return nano


def tiers_of_model(
    model: str, written: Mapping[str, WrittenTiers], flat_nano: Mapping[Meter, int]
) -> dict[TierKey, TierPrices]:
    """Tiers of a model by meter. `flat_nano`: its flat prices. Raises ValueError with the place."""
    found: dict[TierKey, TierPrices] = {}
    for name, each in written.items():
        place = f"models.{model}.tiers.{name}"
        if name not in TIERED:
            raise ValueError(f"{place}: tiers are of {', '.join(TIERED)}")
        meter = Meter(name)
        prices = _tier_prices(place, each, UNITS if meter is Meter.REQUEST else 1, flat_nano[meter])
        try:
            check(prices)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        found[model, meter] = prices
    return found


def _tier_prices(place: str, written: WrittenTiers, times: int, flat_nano: int) -> TierPrices:
    minimum = price_nano(f"{place}.minimum", written.minimum, 1)
    if written.mode is TierMode.PACKAGE:
        if written.steps or written.units is None or written.price is None:
            raise ValueError(f"{place}: a package has units and a price, and no steps")
        package = Tier(written.units, price_nano(f"{place}.price", written.price, 1))
        return TierPrices(written.mode, (package,), minimum)
    if written.units is not None or written.price is not None:
        raise ValueError(f"{place}: units and a price of their own have packages only")
    tiers = [_tier(f"{place}.steps", each, times, flat_nano) for each in written.steps]
    return TierPrices(written.mode, tuple(tiers), minimum)


def _tier(place: str, written: WrittenTier, times: int, flat_nano: int) -> Tier:
    if (written.price is None) == (written.percent is None):
        raise ValueError(f"{place}: each has a price or a percent, and not both")
    if written.price is not None:
        return Tier(written.up_to, price_nano(place, written.price, times))
    percent = written.percent or 0
    if not 0 <= percent <= 100:
        raise ValueError(f"{place}: {percent} % is not from 0 to 100")
    return Tier(written.up_to, round_half_even(flat_nano * percent, 100))


def gpu_second_nano(hour_nano: int) -> int:
    """Price of 1,000,000 GPU-seconds, from the price of one GPU-hour."""
    return round_half_even(hour_nano * UNITS, HOUR_SECONDS)


def gpu_prices(written: Mapping[str, WrittenGpu]) -> dict[str, int]:
    """Prices of 1,000,000 GPU-seconds by type of GPU. Raises ValueError with the place."""
    found: dict[str, int] = {}
    for gpu_type, each in written.items():
        hour = price_nano(f"gpus.{gpu_type}.hour", each.hour, 1)
        second = gpu_second_nano(hour)
        if second > PRICE_NANO_MAX:
            most = to_text(PRICE_NANO_MAX * HOUR_SECONDS // UNITS)
            raise ValueError(f"gpus.{gpu_type}.hour: {each.hour} is not from 0 to {most}")
        found[gpu_type] = second
    return found
