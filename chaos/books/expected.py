"""What the books should say after all that happened, from what clients saw and what was ordered. Pure, and
nothing of the product is in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from chaos.books.months import Line, Used, month_comes_to, month_of
from chaos.books.pricing import amounts, cost, possible
from chaos.books.rows import Rows
from chaos.books.terms import (
    ClientAnswer,
    Corrected,
    CreditTaken,
    Granted,
    History,
    MonthClosed,
    Prices,
    Request,
    Version,
)

Under = Mapping[Request, tuple[str, int]]


@dataclass
class ExpectedBill:
    """A request: what it was told to have used, the version it counts under, what it counts with now."""

    told: ClientAnswer
    version: Version
    prices: Prices
    fits: bool
    center: str = ""
    quantities: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def first_cost(self) -> int:
        """What it cost before any correction."""
        return cost(self.told.quantities, self.prices)

    @property
    def amounts(self) -> dict[str, int]:
        """What it costs now, by meter."""
        return amounts(self.quantities, self.prices)

    @property
    def cost(self) -> int:
        """What it costs now."""
        return cost(self.quantities, self.prices)


@dataclass(frozen=True)
class Move:
    """What a request, or a correction of it, adds to the sums of the hour in which it counts: that of its
    end, or where its month was closed before, the first of the first open month."""

    bill: ExpectedBill
    at_ms: int
    quantities: Mapping[str, int]
    amount: int
    requests: int = 0


@dataclass(frozen=True)
class ExpectedTrueUp:
    """What closing a month booked for a model: in that month's sums, whichever month it is for."""

    tenant: str
    at_ms: int
    model: str
    amount: int


@dataclass
class ExpectedBooks:
    """`by_cause`: what each correction moved, by request and cause; `true_ups`: beyond the requests' own
    amounts, of each closed month, given by its beginning; `open_from`: where the first open month begins."""

    bills: dict[Request, ExpectedBill] = field(default_factory=dict[Request, ExpectedBill])
    by_cause: dict[tuple[Request, str], int] = field(default_factory=dict[tuple[Request, str], int])
    moves: list[Move] = field(default_factory=list[Move])
    open_from: dict[str, int] = field(default_factory=dict[str, int])
    grants: dict[tuple[str, str], Granted] = field(default_factory=dict[tuple[str, str], Granted])
    taken: dict[tuple[str, str], CreditTaken] = field(default_factory=dict[tuple[str, str], CreditTaken])
    closings: list[ExpectedTrueUp] = field(default_factory=list[ExpectedTrueUp])
    true_ups: dict[tuple[str, int], dict[Line, int]] = field(
        default_factory=dict[tuple[str, int], dict[Line, int]]
    )

    def of_tenant(self, tenant: str) -> list[ExpectedBill]:
        """A tenant's requests."""
        return [each for each in self.bills.values() if each.told.tenant == tenant]


def expected_of(history: History, under: Under, ended_ms: Mapping[Request, int]) -> ExpectedBooks:
    """`under`: the version that the books name for a request, by which it counts where it can be that one;
    `ended_ms`: when requests ended, which decides on their month."""
    found = ExpectedBooks()
    for fact in history.facts:
        match fact:
            case ClientAnswer():
                bill = found.bills[fact.key_of] = _bill(history, fact, under, ended_ms)
                _move(found, bill, ended_ms, bill.quantities, bill.cost, 1)
            case Corrected():
                bill = found.bills[fact.key_of]
                was, before = bill.quantities, bill.cost
                bill.quantities = was | dict(fact.quantities)
                found.by_cause[fact.key_of, fact.cause] = bill.cost - before
                more = {meter: bill.quantities[meter] - was[meter] for meter in was}
                _move(found, bill, ended_ms, more, bill.cost - before)
            case Granted():
                found.grants[fact.tenant, fact.key] = fact
            case CreditTaken():
                found.taken[fact.tenant, f"{fact.kind}:{fact.key}"] = fact
            case MonthClosed():
                _close(history, found, fact, ended_ms)
    return found


def _move(
    found: ExpectedBooks,
    bill: ExpectedBill,
    ended_ms: Mapping[Request, int],
    quantities: Mapping[str, int],
    amount: int,
    requests: int = 0,
) -> None:
    ended = ended_ms.get(bill.told.key_of, bill.told.ended_ms)
    at_ms = max(ended, found.open_from.get(bill.told.tenant, 0))
    found.moves.append(Move(bill, at_ms, quantities, amount, requests))


def booked_of(forgotten: Iterable[ClientAnswer], rows: Rows) -> list[ClientAnswer]:
    """Of answers that Redis lost while they ran, those that were over by then and are in the books: with the
    counts that stand there, as nobody was told. What they cost is computed as of any other."""
    events = {(row["tenant_id"], row["request_id"]): row for row in rows["usage_event"]}
    return [
        replace(
            told,
            reason=row["reason"],
            input=row["input_uncached"] + row["input_cached"],
            cached=row["input_cached"],
            output=row["output_text"],
            cost=int(row["cost_nano"]),
            characters=row["output_text"],
        )
        for told in forgotten
        if (row := events.get(told.key_of)) is not None
    ]


def _bill(
    history: History, told: ClientAnswer, under: Under, ended_ms: Mapping[Request, int]
) -> ExpectedBill:
    may = possible(history.versions, history.customers[told.tenant], told)
    assert may, f"no version has a price for {told.model}"
    name = under.get(told.key_of)
    version, prices = may[name] if name in may else next(iter(may.values()))
    ended = ended_ms.get(told.key_of, told.ended_ms)
    center = history.center_at(told.tenant, told.project, ended)
    return ExpectedBill(told, version, prices, name in may, center, told.quantities)


def _close(
    history: History, found: ExpectedBooks, closed: MonthClosed, ended_ms: Mapping[Request, int]
) -> None:
    """The month, and those before it that were closed already: what came late is in their sums."""
    customer = history.customers[closed.tenant]
    start, found.open_from[customer.id] = month_of(closed.at_ms, customer.zone)
    found.true_ups.setdefault((customer.id, start), {})
    bills: dict[int, list[ExpectedBill]] = {}
    for bill in found.of_tenant(customer.id):
        ended = ended_ms.get(bill.told.key_of, bill.told.ended_ms)
        bills.setdefault(month_of(ended, customer.zone)[0], []).append(bill)
    for month in [month for tenant, month in found.true_ups if tenant == customer.id and month <= start]:
        used = used_in(bills.get(month, []))
        before = found.true_ups[customer.id, month]
        after = month_comes_to(used, [each for each in customer.commitments if each.holds(month)])
        found.true_ups[customer.id, month] = after
        end_ms = found.open_from[customer.id]
        for line in before.keys() | after.keys():
            more = after.get(line, 0) - before.get(line, 0)
            found.closings.append(ExpectedTrueUp(customer.id, end_ms - 1, line[0], more))


def used_in(bills: Iterable[ExpectedBill]) -> list[Used]:
    """The sums of requests by model, meter and version."""
    sums: dict[tuple[str, str, str, int], Used] = {}
    for bill in bills:
        for meter, charged in bill.amounts.items():
            key = (bill.told.model, meter, bill.version.book, bill.version.number)
            before = sums.get(key)
            quantity = bill.quantities.get(meter, 0) + (before.quantity if before else 0)
            charged += before.charged if before else 0
            sums[key] = Used(bill.told.model, meter, bill.version, quantity, charged)
    return list(sums.values())
