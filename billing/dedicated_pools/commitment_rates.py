"""Commitments to GPUs: the cost of an hour of dedicated pools. A commitment's GPUs are paid for whether they
are used or not and cover ready GPU-seconds first; further seconds are overage. Pure.

Order never matters: commitments to one pool cover before those to a type of GPU, each in the order of its id,
pools in the order of their names.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from billing.dedicated_pools.hours import GpuHour
from billing.money import UNITS, round_half_even
from billing.periods import HOUR_MS
from billing.prices.price_file_tiers import HOUR_SECONDS, gpu_second_nano
from billing.prices.rating import Meter
from billing.tables.dedicated_pools import Commitment
from billing.tables.prices import GpuPrice

PriceOf = Callable[[str], GpuPrice | None]  # type of GPU -> its price without a commitment
ANY_GPU = "*"


class UnpricedError(Exception):
    """A GPU-second has no price, and must not be billed for nothing."""


@dataclass(frozen=True)
class HourLine:
    """A quantity of GPU-seconds in an hour and its cost. `price_nano` is per 1,000,000."""

    meter: Meter
    quantity: int
    price_nano: int
    amount_nano: int
    book: str = ""
    version: int = 0


@dataclass(frozen=True)
class HourCharge:
    """Cost of one pool (`source`: its name and type of GPU) or one commitment (its id) for its owner in an
    hour. `deferred`: paid at the commitment's start."""

    kind: str
    source: str
    pool: str
    gpu_type: str
    project_id: str
    lines: tuple[HourLine, ...]
    deferred: bool = False


@dataclass
class _Cover:
    """A commitment and the rest of its GPU-seconds in this hour."""

    of: Commitment
    left: int

    def fits(self, use: GpuHour) -> bool:
        """True where it covers these GPUs."""
        return self.of.pool in ("", use.pool) and self.of.gpu_type in (ANY_GPU, use.gpu_type)


def covers_hour(commitment: Commitment, hour_ms: int) -> bool:
    """True where the commitment is paid for the hour."""
    return commitment.start_ms <= hour_ms < commitment.until_ms


def charge_hour(
    uses: Iterable[GpuHour], commitments: Sequence[Commitment], hour_ms: int, price_of: PriceOf
) -> list[HourCharge]:
    """Charges of one tenant for an hour. Raises UnpricedError where a GPU has no price."""
    held = sorted(
        (each for each in commitments if covers_hour(each, hour_ms)),
        key=lambda each: (not each.pool, each.id),
    )
    covers = [_Cover(each, each.gpus * HOUR_SECONDS) for each in held]
    charges = [_reserved(each) for each in held]
    for use in sorted(uses):
        lines = tuple(_lines(use, [each for each in covers if each.fits(use)], price_of))
        charges.append(
            HourCharge("pool", f"{use.pool} {use.gpu_type}", use.pool, use.gpu_type, use.project_id, lines)
        )
    return charges


def _reserved(commitment: Commitment) -> HourCharge:
    line = HourLine(
        meter=Meter.RESERVED_GPU_SECOND,
        quantity=commitment.gpus * HOUR_SECONDS,
        price_nano=gpu_second_nano(commitment.rate_nano),
        amount_nano=commitment.gpus * commitment.rate_nano,
    )
    upfront = commitment.payment == "upfront"
    return HourCharge(
        "commitment", commitment.id, commitment.pool, commitment.gpu_type, "", (line,), deferred=upfront
    )


def _lines(use: GpuHour, covers: Sequence[_Cover], price_of: PriceOf) -> Iterable[HourLine]:
    left = use.ready_seconds
    for cover in covers:
        covered = min(left, cover.left)
        cover.left -= covered
        left -= covered
    if left < use.ready_seconds:
        yield HourLine(Meter.GPU_SECOND, use.ready_seconds - left, 0, 0)
    if left:
        yield _overage(use.gpu_type, left, covers, price_of)


def _overage(gpu_type: str, seconds: int, covers: Sequence[_Cover], price_of: PriceOf) -> HourLine:
    """Price overage by the first commitment with a price for it, else by the book. Raises UnpricedError."""
    agreed = [each.of.overage_nano for each in covers if each.of.overage_nano is not None]
    if agreed:
        return _priced(seconds, gpu_second_nano(agreed[0]), "", 0)
    price = price_of(gpu_type)
    if price is None:
        raise UnpricedError(gpu_type)
    return _priced(seconds, price.second_nano, price.book_id, price.version)


def _priced(seconds: int, second_nano: int, book: str, version: int) -> HourLine:
    amount = round_half_even(seconds * second_nano, UNITS)
    return HourLine(Meter.GPU_SECOND, seconds, second_nano, amount, book, version)


def total_nano(commitment: Commitment) -> int:
    """Cost of a commitment from its start to its end, in nano-USD."""
    return cost_nano(commitment, commitment.start_ms, commitment.end_ms)


def owed_at_once_nano(commitment: Commitment) -> int:
    """What is owed of a commitment once it is made, in nano-USD: all of it, where it is paid upfront."""
    return total_nano(commitment) if commitment.payment == "upfront" else 0


def cost_nano(commitment: Commitment, start_ms: int, end_ms: int) -> int:
    """Cost of a commitment for full hours of a time, in nano-USD."""
    hours = max(0, end_ms - start_ms) // HOUR_MS
    return hours * commitment.gpus * commitment.rate_nano
