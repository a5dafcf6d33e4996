"""What reading input from the cache saved, by model. Pure.

Tokens from the cache are set against the input price of the version that each request had pinned: what they
would have cost by it, less what they cost. Rounded once for each model and version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from billing.ledger.transactions import LineKind
from billing.money import UNITS, round_half_even
from billing.prices.rating import Meter
from billing.reports.priced_sums import PricedSums

InputPrices = Mapping[tuple[str, int, str], int]  # nano for a million, by book, version and model


@dataclass(frozen=True)
class CacheSaving:
    """Input tokens of a model, those of them from the cache, and what that saved. `unpriced`: cached tokens
    whose version is not known any more; they save nothing here."""

    model: str
    input_tokens: int = 0
    cached_tokens: int = 0
    saved_nano: int = 0
    unpriced: int = 0


def cache_savings(sums: Iterable[PricedSums], prices: InputPrices) -> list[CacheSaving]:
    """Savings of each model that had input, most first. What tiers made of a month is left out."""
    found: dict[str, CacheSaving] = {}
    cached: dict[tuple[str, str, int], tuple[int, int]] = {}
    for each in sums:
        if each.kind == LineKind.TRUE_UP or each.meter not in (Meter.INPUT, Meter.CACHED_INPUT):
            continue
        model = found.setdefault(each.model, CacheSaving(each.model))
        from_cache = each.quantity if each.meter == Meter.CACHED_INPUT else 0
        found[each.model] = CacheSaving(
            each.model, model.input_tokens + each.quantity, model.cached_tokens + from_cache
        )
        if each.meter == Meter.CACHED_INPUT:
            key = (each.model, each.book, each.version)
            quantity, nano = cached.get(key, (0, 0))
            cached[key] = quantity + each.quantity, nano + each.amount_nano
    for (model, book, version), (quantity, nano) in cached.items():
        found[model] = _saved(found[model], quantity, nano, prices.get((book, version, model)))
    shown = [each for each in found.values() if each.input_tokens]
    return sorted(shown, key=lambda each: (-each.saved_nano, -each.input_tokens, each.model))


def _saved(model: CacheSaving, quantity: int, nano: int, price: int | None) -> CacheSaving:
    whole = model.input_tokens, model.cached_tokens
    if price is None:
        return CacheSaving(model.model, *whole, model.saved_nano, model.unpriced + quantity)
    saved = round_half_even(quantity * price, UNITS) - nano
    return CacheSaving(model.model, *whole, model.saved_nano + saved, model.unpriced)
