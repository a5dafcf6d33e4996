"""What a request costs, and under which version of which book. Pure, and nothing of the product is in it.

A line is quantity times price, rounded once, a tie to the even; a total is the sum of its lines.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from chaos.books.terms import METERS, UNITS, ClientAnswer, Customer, Prices, Quantities, Version

CLOCK_MS = 5  # between two processes' looks at one clock
STAMP_MS = (
    250  # times that are written down: a process carries Redis's clock on, and may have looked for long
)
KEPT_MS = 2_500  # for so long a gateway may keep prices that it was not told have changed


def amount(quantity: int, price: int) -> int:
    """One line. A Fraction's `round` is exact, and takes ties to the even one."""
    return round(Fraction(quantity * price, UNITS))


def amounts(quantities: Quantities, prices: Prices) -> dict[str, int]:
    """The amount of each meter."""
    return {meter: amount(quantities.get(meter, 0), prices.of_units(meter)) for meter in METERS}


def cost(quantities: Quantities, prices: Prices) -> int:
    """What a request costs."""
    return sum(amounts(quantities, prices).values())


def least(tokens: int, prices: Prices) -> int:
    """What has to be left for a send of so many tokens to be let in: its prompt, cached or not as is dearer,
    the first token, and its own price. A line is rounded up, and one is added, as it may become two lines."""
    lines = ((tokens, max(prices.input, prices.cached_input)), (1, prices.output))
    return sum(-(-count * price // UNITS) + 1 for count, price in lines if count and price) + prices.request


def steady_from(versions: Iterable[Version], at_ms: int, steady_ms: int) -> int:
    """The first moment from then on after which no version begins for so long."""
    for begins in sorted(each.begins_ms for each in versions if not each.withdrawn):
        if at_ms <= begins < at_ms + steady_ms:
            at_ms = begins + KEPT_MS
    return at_ms


def in_force(versions: Iterable[Version], book: str, at_ms: int) -> Version | None:
    """The last of a book's versions to begin by then, of those that were not withdrawn."""
    begun = [
        each for each in versions if each.book == book and not each.withdrawn and each.begins_ms <= at_ms
    ]
    return max(begun, key=lambda each: (each.begins_ms, each.number), default=None)


def version_at(
    versions: Sequence[Version], customer: Customer, model: str, at_ms: int
) -> tuple[Version, Prices] | None:
    """Its own book's, else that of the first parent which has a price for the model."""
    for book in customer.books:
        version = in_force(versions, book, at_ms)
        prices = version.prices_of(model) if version else None
        if version is not None and prices is not None:
            return version, prices
    return None


def possible(
    versions: Sequence[Version], customer: Customer, told: ClientAnswer
) -> dict[tuple[str, int], tuple[Version, Prices]]:
    """The versions that a request may have been admitted under, by book and number.

    It was admitted between its sending and the word that it is accepted: one version, but where another began
    just then, or began at once and not every gateway knew."""
    found: dict[tuple[str, int], tuple[Version, Prices]] = {}
    first, last = told.sent_ms - CLOCK_MS, told.heard_ms + CLOCK_MS
    for at_ms in (first, last, *(each.begins_ms for each in versions if first < each.begins_ms <= last)):
        for known in _known(versions, first, at_ms):
            if (each := version_at(known, customer, told.model, at_ms)) is not None:
                found[each[0].book, each[0].number] = each
    return found


def _known(versions: Sequence[Version], sent_ms: int, at_ms: int) -> Iterator[Sequence[Version]]:
    yield versions
    untold = [each for each in versions if each.begins_ms <= at_ms and each.known_ms > each.begins_ms]
    late = [each for each in untold if sent_ms < each.known_ms + KEPT_MS]
    for each in late:
        yield [other for other in versions if other is not each]
    if len(late) > 1:
        yield [other for other in versions if other not in late]
