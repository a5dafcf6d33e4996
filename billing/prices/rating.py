"""Rating: what an amount of use costs under pinned prices. Pure; worker and biller call the same code.

Rounding happens once, on each line; a total is the sum of its lines (docs/ledger.md, "Posting").
"""

from dataclasses import dataclass
from enum import StrEnum

from billing.money import UNITS, round_half_even
from billing.usage import PinnedPrices, UsageEvent


class Meter(StrEnum):
    """What a line counts. Token classes are disjoint: a cached token is not an input token too. MINIMUM
    counts nothing: it is what lacks to what a tenant committed to spend."""

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
    """What one request used, in disjoint classes. A request that used no token is not counted as one."""

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
        """1 where anything was used, else 0: what never ran costs nothing."""
        used = self.input_uncached + self.input_cached + self.output_text + self.output_reasoning
        return 1 if used else 0


@dataclass(frozen=True)
class PricedQuantity:
    """One priced quantity. `price_nano` is for 1,000,000 units, `amount_nano` what this quantity costs."""

    meter: Meter
    quantity: int
    price_nano: int
    amount_nano: int


def rate(counts: Counts, prices: PinnedPrices) -> tuple[list[PricedQuantity], int]:
    """The lines of what was used, without empty ones, and their sum in nano-USD."""
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
    """The billable quantities of an event. Raises ValueError where one is negative."""
    return Counts(event.input_uncached, event.input_cached, event.output_text, event.output_reasoning)
