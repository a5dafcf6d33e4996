"""Price files: one version of a price book as TOML, which people write, review and keep. Pure.

    book = "default"
    valid_from = 2027-01-01T00:00:00Z

    [models."*"]
    input = "0.10"           # for 1,000,000 tokens
    cached_input = "0.025"
    output = "0.40"
    request = "0.0001"       # for one request

    [models.large]
    input = "1.00"
    output = "3.00"

    [models.large.tiers.output]          # what a month's quantity costs: booked as a true-up at its end
    mode = "graduated"                   # or volume
    steps = [{ up_to = 1_000_000_000, price = "3.00" }, { price = "2.40" }]
    minimum = "50.00"                    # of a month in which it was used

    [models.large.tiers.request]
    mode = "package"
    units = 1000
    price = "0.05"

    [gpus.h200]                          # of a dedicated pool
    hour = "3.50"

Amounts are text: a number in TOML is a binary fraction, and 0.1 is none.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.money import UNITS
from billing.prices.price_file_tiers import (
    PRICE_NANO_MAX,
    TierKey,
    WrittenGpu,
    WrittenTiers,
    gpu_prices,
    price_nano,
    tiers_of_model,
)
from billing.prices.rating import Meter
from billing.prices.tiers import TierPrices

MODELS_MAX = 1_000
GPUS_MAX = 100
__all__ = ["PRICE_NANO_MAX", "FlatPrices", "ModelPrices", "PriceFile", "gpus_of", "parse", "tiers_of"]

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ModelPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model's prices as written. Cached input without a price costs the same as input. `tiers` by meter;
    those of `output` count reasoning too."""

    input: str
    output: str
    cached_input: str | None = None
    request: str = "0"
    tiers: dict[str, WrittenTiers] = {}


class PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of a book. `tenant`: its name or id, where the book is one tenant's own; `parent`: the book
    that supplies missing prices."""

    book: Name
    models: Annotated[dict[Name, ModelPrices], Meta(min_length=1, max_length=MODELS_MAX)]
    name: Annotated[str, Meta(max_length=200)] = ""
    currency: Annotated[str, Meta(pattern=r"^[a-z]{3}\Z")] = "usd"
    valid_from: Annotated[datetime, Meta(tz=True)] | None = None
    tenant: Name | None = None
    parent: Name | None = None
    gpus: Annotated[dict[Name, WrittenGpu], Meta(max_length=GPUS_MAX)] = {}


class FlatPrices(msgspec.Struct, frozen=True):
    """A model's prices in nano-USD per 1,000,000 units."""

    input_nano: int
    cached_input_nano: int
    output_nano: int
    request_nano: int


def parse(text: str) -> tuple[PriceFile, dict[str, FlatPrices]]:
    """Parse a file; return it and its prices by model. Raises ValueError with the fault and its place."""
    try:
        file = msgspec.toml.decode(text, type=PriceFile)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"this is no price file: {error}") from error
    return file, {model: _flat(model, prices) for model, prices in file.models.items()}


def tiers_of(file: PriceFile) -> dict[TierKey, TierPrices]:
    """Tiers in a file by model and meter. Raises ValueError with the fault and its place."""
    found: dict[TierKey, TierPrices] = {}
    for model, prices in file.models.items():
        flat = _flat(model, prices)
        of_meter = {
            Meter.INPUT: flat.input_nano,
            Meter.CACHED_INPUT: flat.cached_input_nano,
            Meter.OUTPUT: flat.output_nano,
            Meter.REQUEST: flat.request_nano,
        }
        found |= tiers_of_model(model, prices.tiers, of_meter)
    return found


def gpus_of(file: PriceFile) -> dict[str, int]:
    """Prices of 1,000,000 GPU-seconds in a file, by type. Raises ValueError with the place."""
    return gpu_prices(file.gpus)


def _flat(model: str, prices: ModelPrices) -> FlatPrices:
    cached = prices.input if prices.cached_input is None else prices.cached_input
    place = f"models.{model}"
    return FlatPrices(
        input_nano=price_nano(f"{place}.input", prices.input, 1),
        cached_input_nano=price_nano(f"{place}.cached_input", cached, 1),
        output_nano=price_nano(f"{place}.output", prices.output, 1),
        request_nano=price_nano(f"{place}.request", prices.request, UNITS),
    )
