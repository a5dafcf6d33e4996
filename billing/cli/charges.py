"""`parley charges`: what a charge is made of, from a day down to one request."""

from collections.abc import Iterator

import click

from billing.cli.operations import CommandTerms, answered, asks
from billing.money import UNITS, to_display
from billing.operations import charges, explained_charges
from billing.operations.charges import AskDay, AskDearest, ChargedDay, ChargeSums, DearestRequests
from billing.operations.explained_charges import AskCharge, ChargedTo, ChargeState, ExplainedCharge
from billing.prices.rating import Meter
from billing.requests.explain import BookedLine, BookedRequest
from core.clock import iso_time
from core.operations import MoneyAmount, flat_facts
from core.terminal.terminal import print_json
from core.terminal.terminal_tables import Block, Table, print_blocks

NOBODY = "(none)"
STATES = {
    ChargeState.OPEN: "It has not ended: nothing is booked yet.",
    ChargeState.ENDED: "It has ended, and is not in the books yet: that takes seconds.",
    ChargeState.RELEASED: "No queue took it: it costs nothing.",
    ChargeState.HELD_BACK: "It is held back from the books until somebody decides whether it is billed.",
    ChargeState.DISMISSED: "It was held back from the books, and is not billed.",
    ChargeState.REFUSED: "It was refused: a refused request costs nothing.",
}


@click.group("charges")
def charges_command() -> None:
    """Charges explained: a day by its groups, a group by its requests, a request by its lines.

    \b
        parley charges day --tenant acme --day 2026-11-12
        parley charges requests --tenant acme --day 2026-11-12 --by key --of KEY
        parley charges explain --tenant acme REQUEST
    """


@charges_command.command("day")
@asks(charges.explain_day, options={"by": {"show_default": True}, "limit": {"show_default": True}})
def day_command(ask: AskDay, how: CommandTerms) -> None:
    """What a day or month cost, beside the same weekday before, or the month before.

    What added most comes first; of a day that cost less, what took off most.
    """
    found = answered(charges.explain_day, ask, how)
    if how.as_json:
        print_json(flat_facts(found))
    else:
        print_blocks(*_day(found))


@charges_command.command("requests")
@asks(charges.dearest_requests, options={"by": {"show_default": True}, "limit": {"show_default": True}})
def requests_command(ask: AskDearest, how: CommandTerms) -> None:
    """The requests of a day, or of a group of it, that cost most; and what all others cost."""
    found = answered(charges.dearest_requests, ask, how)
    if how.as_json:
        print_json(flat_facts(found))
    else:
        print_blocks(*_requests(found))


@charges_command.command("explain")
@asks(explained_charges.explain_charge, arguments=("request",), options={"request": {"metavar": "REQUEST"}})
def explain_command(ask: AskCharge, how: CommandTerms) -> None:
    """What the request REQUEST was charged: each line, why its price, whose it is, what it held.

    `parley requests explain` tells operators more: where it ran, and its limits.
    """
    found = answered(explained_charges.explain_charge, ask, how)
    if how.as_json:
        print_json(flat_facts(found))
    else:
        print_blocks(*_explained(found))


def _day(found: ChargedDay) -> Iterator[Block]:
    part = "" if found.over else f", up to {found.time.end}"
    yield f"{found.time.name}{part}, beside {found.before.name}, in {found.time_zone}"
    table = Table()
    table.columns(found.by.value)
    table.columns("requests", "tokens", "before", "cost", "added", right=True)
    table.columns("id")
    for each in found.groups:
        table.row(each.name or NOBODY, *_sums(each.sums), each.of)
    if found.more:
        table.row(f"{found.more:,} others", *_sums(found.others), "")
    table.row("all", *_sums(found.total), "")
    yield table


def _sums(sums: ChargeSums) -> tuple[str, ...]:
    amounts = (sums.before, sums.cost, sums.added)
    return f"{sums.requests:,}", f"{sums.tokens:,}", *(_money(each) for each in amounts)


def _requests(found: DearestRequests) -> Iterator[Block]:
    of = "" if found.of is None else f" of {found.by.value} {found.name or NOBODY}"
    yield f"The {len(found.items)} dearest of {found.requests:,} requests{of} on {found.time.name}"
    table = Table()
    table.columns("ended", "request", "user", "key", "model", "end")
    table.columns("input", "cached", "output", "cost", right=True)
    for each in found.items:
        tokens = (each.input_uncached + each.input_cached, each.input_cached)
        counts = (*tokens, each.output_text + each.output_reasoning)
        who = (each.user or NOBODY, each.key_name, each.model, each.code or each.reason)
        table.row(each.ended or "", each.request, *who, *(f"{n:,}" for n in counts), _money(each.cost))
    for name, amount in (
        ("shown", found.shown),
        (f"the other {found.more:,}", found.others),
        ("all", found.total),
    ):
        table.row(name, *[""] * 8, _money(amount))
    yield table


def _explained(found: ExplainedCharge) -> Iterator[Block]:
    booked = found.booked
    yield _sheet(_facts(found))
    if booked is not None:
        table = Table()
        table.columns("kind", "meter")
        table.columns("quantity", "price", "amount", right=True)
        table.columns("booked")
        for line in booked.lines:
            price = price_text(line, booked.currency)
            table.row(
                line.kind,
                line.meter,
                f"{line.quantity:,}",
                price,
                _money(line.amount),
                iso_time(line.posted_ms) or "",
            )
        table.row("all", "", "", "", _money(booked.amount), "")
        yield from ("", "How the amount is made", table)


def _facts(found: ExplainedCharge) -> Iterator[tuple[str, str]]:
    booked, hold = found.booked, found.hold
    yield "request", found.request
    if booked is None:
        yield "charge", STATES[found.state]
    else:
        yield from _charged(booked)
    yield from _origin(found)
    if found.whose is not None:
        yield from _whose(found.whose)
    if hold is not None:
        yield "held", f"{_money(hold.most)} at most, {_money(hold.now)} now" if hold.most else "nothing"
    if booked is not None:
        yield "trace", booked.trace_id
    yield "not read", found.unread


def _charged(booked: BookedRequest) -> Iterator[tuple[str, str]]:
    price = booked.price
    yield "charge", _money(booked.amount)
    since = iso_time(price.from_ms) if price.from_ms else "the beginning"
    yield "price", f"book {price.book}, version {price.version}, from {since}"
    yield "why", price.why
    for each in booked.months:
        yield "month", f"{each.month}, {'closed' if each.closed_ms else 'open'}"
    yield "ended", f"{booked.reason} {booked.code}".strip()


def _origin(found: ExplainedCharge) -> Iterator[tuple[str, str]]:
    origin = found.origin
    if origin is None:
        return
    yield "announced", (iso_time(origin.announced_ms) or "") if origin.announced_ms else ""
    if origin.earlier is not None:
        yield f"version {origin.earlier.version}", f"would have been {_money(origin.earlier.amount)}"
    if origin.cache_saved is not None:
        yield "cache saved", _money(origin.cache_saved)


def _whose(whose: ChargedTo) -> Iterator[tuple[str, str]]:
    yield "user", whose.user
    yield "key", f"{whose.key_name} {whose.key_prefix}".strip()
    center = f", cost center {whose.cost_center}" if whose.cost_center else ""
    yield "project", whose.project_name + center


def price_text(line: BookedLine, currency: str) -> str:
    """A line's price: for one request, else for a million."""
    if line.meter == Meter.REQUEST:
        return f"{to_display(line.price.value // UNITS, currency)} each"
    return f"{to_display(line.price.value, currency)} a million"


def _sheet(facts: Iterator[tuple[str, str]]) -> Table:
    table = Table(headed=False)
    table.columns("fact", whole=True)
    table.columns("is")
    for name, value in facts:
        if value:
            table.row(name, value)
    return table


def _money(amount: MoneyAmount) -> str:
    return to_display(amount.value)
