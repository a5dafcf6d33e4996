"""Price files: one version of a price book as TOML, which people write, review and keep. Pure.

    book = "default"
    valid_from = 2027-01-01T00:00:00Z

    [models."*"]
    input = "0.10"           # for 1,000,000 tokens
    cached_input = "0.025"
    output = "0.40"
    request = "0.0001"       # for one request

Amounts are text: a number in TOML is a binary fraction, and 0.1 is none.
"""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.money import UNITS, from_text, to_text

PRICE_NANO_MAX = 9_000_000_000_000_000  # below 2^53, which Redis scripts count exactly
MODELS_MAX = 1_000

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ModelPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model's prices as written. Where none is given, cached input costs what input costs."""

    input: str
    output: str
    cached_input: str | None = None
    request: str = "0"


class PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of a book. `tenant`: its name or id, where the book is one tenant's own; `parent`: the book
    that has the prices which this one has not."""

    book: Name
    models: Annotated[dict[Name, ModelPrices], Meta(min_length=1, max_length=MODELS_MAX)]
    name: Annotated[str, Meta(max_length=200)] = ""
    currency: Annotated[str, Meta(pattern="^[a-z]{3}$")] = "usd"
    valid_from: Annotated[datetime, Meta(tz=True)] | None = None
    tenant: Name | None = None
    parent: Name | None = None


class FlatPrices(msgspec.Struct, frozen=True):
    """A model's prices in nano for 1,000,000 units."""

    input_nano: int
    cached_input_nano: int
    output_nano: int
    request_nano: int


def parse(text: str) -> tuple[PriceFile, dict[str, FlatPrices]]:
    """A file and its prices by model. Raises ValueError that says what is wrong and where."""
    try:
        file = msgspec.toml.decode(text, type=PriceFile)
    except msgspec.MsgspecError as error:
        raise ValueError(f"this is no price file: {error}") from error
    return file, {model: _flat(model, prices) for model, prices in file.models.items()}


def _flat(model: str, prices: ModelPrices) -> FlatPrices:
    cached = prices.input if prices.cached_input is None else prices.cached_input
    return FlatPrices(
        input_nano=_amount(model, "input", prices.input, 1),
        cached_input_nano=_amount(model, "cached_input", cached, 1),
        output_nano=_amount(model, "output", prices.output, 1),
        request_nano=_amount(model, "request", prices.request, UNITS),
    )


def _amount(model: str, what: str, text: str, times: int) -> int:
    try:
        nano = from_text(text) * times
    except ValueError as error:
        raise ValueError(f"models.{model}.{what}: {error}") from error
    if not 0 <= nano <= PRICE_NANO_MAX:
        most = to_text(PRICE_NANO_MAX // times)
        raise ValueError(f"models.{model}.{what}: {text} is not from 0 to {most}")
    return nano
