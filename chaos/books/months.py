"""What a month comes to: tiers, minimums and commitments over what its requests used. Pure, and nothing of
the product is in it.

A version's tiers price the quantity that was admitted under it. Committed units go to the oldest version
first. A meter's minimum is that of the newest version under which it was used; what a commitment covers has
none. What lacks to a spending commitment is owed beside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from chaos.books.pricing import amount
from chaos.books.terms import ANY_MODEL, MINIMUM, MonthlyCommitment, Tiers, Version

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
Line = tuple[str, str]  # model, meter


@dataclass(frozen=True)
class Used:
    """What a month's lines say of a meter under one version: the quantity, and what was charged for it with
    each request. `model` as requests name it."""

    model: str
    meter: str
    version: Version
    quantity: int
    charged: int


def month_of(at_ms: int, zone: str) -> tuple[int, int]:
    """The beginnings of the month that a moment is in, and of the next, in a zone."""
    here = (EPOCH + at_ms * MILLISECOND).astimezone(ZoneInfo(zone))
    first = here.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    later = (first.replace(tzinfo=None) + timedelta(days=32)).replace(day=1)
    following = later.replace(tzinfo=ZoneInfo(zone))
    return _ms(first), _ms(following)


def name_of(at_ms: int, zone: str) -> str:
    """As commands write it: `2026-11`."""
    return f"{(EPOCH + at_ms * MILLISECOND).astimezone(ZoneInfo(zone)):%Y-%m}"


def _ms(at: datetime) -> int:
    return (at.astimezone(UTC) - EPOCH) // MILLISECOND


def tiered(quantity: int, tiers: Tiers, charged: int) -> int:
    """What a quantity costs by its tiers, without the minimum; the flat ones leave what was charged."""
    match tiers.mode:
        case "graduated":
            parts, before = 0, 0
            for up_to, price in tiers.steps:
                end = quantity if up_to is None else min(quantity, up_to)
                parts += max(0, end - before) * price
                before = end
            return amount(parts, 1)
        case "volume":
            price = next(price for up_to, price in tiers.steps if up_to is None or quantity <= up_to)
            return amount(quantity, price)
        case "package":
            return -(-quantity // tiers.size) * tiers.price
        case _:
            return charged


def month_comes_to(used: Iterable[Used], commitments: Sequence[MonthlyCommitment]) -> dict[Line, int]:
    """What a month costs beyond what was charged with its requests, by model and meter: the true-up."""
    groups: dict[Line, list[Used]] = {}
    for each in used:
        groups.setdefault((each.model, each.meter), []).append(each)
    left = _units(commitments)
    beyond: dict[Line, int] = {}
    spent = 0
    for line in sorted(groups):
        group = sorted(groups[line], key=lambda each: (each.version.begins_ms, each.version.number))
        covered = [
            each for each in commitments if each.meter == line[1] and each.model in (line[0], ANY_MODEL)
        ]
        comes_to = _meter(group, covered, left)
        charged = sum(each.charged for each in group)
        beyond[line] = comes_to - charged
        spent += comes_to
    for each in commitments:
        if each.meter:
            beyond[each.model, each.meter] = beyond.get((each.model, each.meter), 0) + each.amount
            spent += each.amount
    promised = sum(each.amount for each in commitments if not each.meter)
    beyond["", MINIMUM] = max(0, promised - spent)
    return {line: nano for line, nano in beyond.items() if nano}


def _units(commitments: Iterable[MonthlyCommitment]) -> dict[Line, int]:
    left: dict[Line, int] = {}
    for each in commitments:
        if each.meter:
            left[each.model, each.meter] = left.get((each.model, each.meter), 0) + each.units
    return left


def _meter(group: Sequence[Used], covered: Sequence[MonthlyCommitment], left: dict[Line, int]) -> int:
    """One model and meter, its versions the oldest first."""
    total, minimum = 0, 0
    for each in group:
        tiers = each.version.tiers_of(each.model, each.meter)
        if each.quantity:
            minimum = tiers.minimum if tiers is not None else 0
        rest = each.quantity
        for model in (each.model, ANY_MODEL):
            taken = min(rest, left.get((model, each.meter), 0))
            if taken:
                left[model, each.meter] -= taken
                rest -= taken
        total += _beyond(each, rest, tiers or Tiers(), covered)
    return total if covered else max(total, minimum)


def _beyond(each: Used, rest: int, tiers: Tiers, covered: Sequence[MonthlyCommitment]) -> int:
    """What is left of a quantity costs the overage where one was agreed; else what the book says."""
    own = sorted(covered, key=lambda one: one.model == ANY_MODEL)
    overage = next((one.overage for one in own if one.overage is not None), None)
    if overage is not None:
        return amount(rest, overage)
    if rest < each.quantity and tiers.mode == "flat":
        prices = each.version.prices_of(each.model)
        assert prices is not None, "it was charged by them"
        return amount(rest, prices.of_units(each.meter))
    return tiered(rest, tiers, each.charged)
