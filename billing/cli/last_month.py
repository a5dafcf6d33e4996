"""What a budget or limit would have done last month, in words. Pure."""

from typing import Any

from msgspec import UnsetType

from billing.money import to_display
from billing.operations.last_month import LastMonth, OneAffected


def month_shown(last: LastMonth | UnsetType | None, as_json: bool) -> dict[str, Any]:
    """The fact as commands print it: in words, in JSON as it is."""
    return {"last_month": last_month_words(last)} if isinstance(last, LastMonth) and not as_json else {}


def last_month_words(last: LastMonth) -> str:
    """A sentence: how often, since when, and who the most of it was."""
    if last.hour_lets_through is None:
        if last.begins is None:
            return f"in {last.month} it would have refused nobody"
        told = (
            f"in {last.month} it would have refused {last.requests} requests of {to_display(last.cost.value)}"
        )
        return f"{told}, from {last.begins} on: {_most(last)}"
    most = f"more came than it lets through in one ({last.hour_lets_through})"
    if last.begins is None:
        return f"in no hour of {last.month} {most}; minutes are not kept"
    told = f"in {last.times} hours of {last.month} {most}; minutes are not kept"
    return f"{told}; first at {last.begins}: {_most(last)}"


def _most(last: LastMonth) -> str:
    others = [f"{last.others} others"] if last.others else []
    return ", ".join([*(_one(each) for each in last.most), *others])


def _one(each: OneAffected) -> str:
    return f"{each.name} {each.requests} ({to_display(each.cost.value)})"
