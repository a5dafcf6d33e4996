"""Rating: the cost of usage under pinned prices. Pure; worker and biller call the same code.

Rounding happens once, on each line; a total is the sum of its lines (docs/ledger.md, "Posting").
"""

from dataclasses import dataclass
from enum import StrEnum

from billing.money import UNITS, round_half_even
from billing.usage import PinnedPrices, UsageEvent


class Meter(StrEnum):
    """Quantity that a line counts. Token classes are disjoint: a cached token is not an input token too.
    MINIMUM has no quantity: it is the rest up to a committed spending."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"
    REASONING = "reasoning"
    REQUEST = "request"
    GPU_SECOND = "gpu_second"
    RESERVED_GPU_SECOND = "reserved_gpu_second"
    MINIMUM = "minimum"


@dataclass(frozen=True)
class Counts:
    """Usage of one request, in disjoint classes. Raises ValueError where one is negative."""

    input_uncached: int = 0
    input_cached: int = 0
    output_text: int = 0
    output_reasoning: int = 0

    def __post_init__(self) -> None:
        least = min(self.input_uncached, self.input_cached, self.output_text, self.output_reasoning)
        if least < 0:
            raise ValueError("a quantity is negative")

    @property
    def requests(self) -> int:
        """1 where any token was used, else 0: a request that never ran costs nothing."""
        used = self.input_uncached + self.input_cached + self.output_text + self.output_reasoning
        return 1 if used else 0


@dataclass(frozen=True)
class PricedQuantity:
    """One priced quantity. `price_nano` is per 1,000,000 units, `amount_nano` the cost of this quantity."""

    meter: Meter
    quantity: int
    price_nano: int
    amount_nano: int


def rate(counts: Counts, prices: PinnedPrices) -> tuple[list[PricedQuantity], int]:
    """Price the usage: its lines, without empty ones, and their sum in nano-USD."""
    priced = (
        (Meter.INPUT, counts.input_uncached, prices.input_nano),
        (Meter.CACHED_INPUT, counts.input_cached, prices.cached_input_nano),
        (Meter.OUTPUT, counts.output_text, prices.output_nano),
        (Meter.REASONING, counts.output_reasoning, prices.output_nano),
        (Meter.REQUEST, counts.requests, prices.request_nano),
    )
    if min(price for _, _, price in priced) < 0:
        raise ValueError("a price is negative")
    lines = [
        PricedQuantity(meter, quantity, price, round_half_even(quantity * price, UNITS))
        for meter, quantity, price in priced
        if quantity
    ]
    return lines, sum(line.amount_nano for line in lines)


def counts_of(event: UsageEvent) -> Counts:
    """Billable quantities of an event. Raises ValueError where one is negative."""
    return Counts(event.input_uncached, event.input_cached, event.output_text, event.output_reasoning)
