"""Price versions as files for `parley prices import`. Pure, and nothing of the product is in it."""

from datetime import timedelta

from chaos.books.months import EPOCH
from chaos.books.terms import REQUEST, UNITS, Tiers, Version

NANO = 1_000_000_000


def usd(nano: int) -> str:
    """An exact decimal."""
    return f"{nano // NANO}.{nano % NANO:09d}"


def price_file(version: Version, tenant: str, parent: str, begins_ms: int | None) -> str:
    """The file of a version; without `begins_ms` it begins when it is imported."""
    lines = [f'book = "{version.book}"']
    lines += [f'tenant = "{tenant}"'] * bool(tenant) + [f'parent = "{parent}"'] * bool(parent)
    if begins_ms is not None:
        at = EPOCH + timedelta(milliseconds=begins_ms)
        lines.append(f"valid_from = {at:%Y-%m-%dT%H:%M:%S}.{begins_ms % 1000:03d}Z")
    for model, prices in version.prices.items():
        lines.append(f'[models."{model}"]')
        lines += [
            f'{name} = "{usd(getattr(prices, name))}"'
            for name in ("input", "cached_input", "output", "request")
        ]
        for (of, meter), tiers in version.tiers.items():
            if of == model:
                lines += [
                    f'[models."{model}".tiers.{meter}]',
                    *_tiers(tiers, UNITS if meter == REQUEST else 1),
                ]
    return "\n".join(lines) + "\n"


def _tiers(tiers: Tiers, units: int) -> list[str]:
    lines = [f'mode = "{tiers.mode}"', f'minimum = "{usd(tiers.minimum)}"']
    if tiers.mode == "package":
        lines += [f"units = {tiers.size}", f'price = "{usd(tiers.price)}"']
    if tiers.steps:
        steps = [
            f'{{ {f"up_to = {up_to}, " if up_to is not None else ""}price = "{usd(price // units)}" }}'
            for up_to, price in tiers.steps
        ]
        lines.append(f"steps = [{', '.join(steps)}]")
    return lines
