"""Why two spans of months cost differently, in words for each part of the difference. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from billing.reports.price_comparison import (
    TOKENS,
    UNIT_OF,
    CompareBy,
    Month,
    PriceDifference,
    compare,
    total,
)
from billing.reports.spend_words import amount_of, cents, change, listed, month_name, share

NAMED_MAX = 2
DATES_MAX = 3
METER_WORDS = {
    "input": "input",
    "cached_input": "input from the cache",
    "output": "output",
    "reasoning": "reasoning",
}
UNIT_WORDS = {
    "request": "requests",
    "gpu_second": "GPU-seconds",
    "reserved_gpu_second": "reserved GPU-seconds",
}
Corrected = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class BridgeFacts:
    """What the words are made of. `version`: the newest price version that was used and not from the
    beginning, with the date of its start. `months`: numbers of the month before and after. `closed`: the
    later one is. `tiers_before_nano`: of all of the month before. `corrected`: dates and sums of corrections
    before and after."""

    before: Month
    after: Month
    months: tuple[int, int]
    closed: bool
    tiers_before_nano: int = 0
    version: tuple[int, str] | None = None
    corrected: tuple[Corrected, Corrected] = ((), ())


def bridge_words(facts: BridgeFacts) -> dict[str, str]:
    """A sentence without its full stop for each part, by the part's name."""
    return {
        "volume": _volume(facts),
        "mix": _mix(facts),
        "price": _price(facts),
        "tiers": _tiers(facts),
        "corrections": _corrections(facts),
    }


def _volume(facts: BridgeFacts) -> str:
    was, now = _tokens(facts.before), _tokens(facts.after)
    earlier = month_name(facts.months[0])
    if was == now:
        told = f"As many tokens as in {earlier}" if now else "No tokens in either month"
    elif was == 0:
        told = f"{amount_of(now)} tokens after none in {earlier}"
    else:
        more = "more" if now > was else "fewer"
        said = f"{amount_of(abs(now - was))} {more} tokens ({amount_of(was)} to {amount_of(now)})"
        told = f"{said} at {earlier}\u2019s average prices"
    return "; ".join([told, *_other_units(facts)])


def _other_units(facts: BridgeFacts) -> list[str]:
    """Units beside tokens whose volume moved money."""
    moved: dict[str, int] = {}
    for meter, found in compare(facts.before, facts.after, CompareBy.METER).items():
        unit = UNIT_OF[meter]
        if unit != TOKENS and found.volume_nano:
            moved[unit] = moved.get(unit, 0) + found.volume_nano
    return [
        f"{UNIT_WORDS.get(unit, unit)} {change(nano)}"
        for unit, nano in sorted(moved.items(), key=lambda each: -abs(each[1]))
        if change(nano) != "0.00"
    ]


def _mix(facts: BridgeFacts) -> str:
    by_model = compare(facts.before, facts.after, CompareBy.MODEL)
    mix_nano = total(by_model.values()).mix_nano
    if not any(each.mix_nano for each in by_model.values()):
        return "Models and kinds of tokens have the same shares"
    dearer = "dearer" if mix_nano > 0 else "cheaper"
    whose, of = _moved(facts.before, facts.after)
    was, now = of.get("before", ""), of.get("after", "")
    return f"{whose} took {now} of tokens after {was}; {dearer} models and kinds of tokens took more"


def _moved(before: Month, after: Month) -> tuple[str, Mapping[str, str]]:
    """The model, or with one model the kind of tokens, whose share of tokens moved most, and its shares."""
    models = {cell.model for cell in (*before, *after) if UNIT_OF[cell.meter] == TOKENS}
    by = "model" if len(models) > 1 else "meter"
    sums = [_by(month, by) for month in (before, after)]
    wholes = [max(1, sum(each.values())) for each in sums]

    def moved(name: str) -> int:
        return abs(sums[1].get(name, 0) * wholes[0] - sums[0].get(name, 0) * wholes[1])

    name = max(sorted({*sums[0], *sums[1]}), key=moved, default="")
    shares = {
        when: share(found.get(name, 0), whole)
        for when, found, whole in zip(("before", "after"), sums, wholes, strict=True)
    }
    return METER_WORDS.get(name, name) if by == "meter" else name, shares


def _by(month: Month, by: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for cell, sums in month.items():
        if UNIT_OF[cell.meter] == TOKENS:
            name = str(getattr(cell, by))
            found[name] = found.get(name, 0) + sums.quantity
    return found


def _price(facts: BridgeFacts) -> str:
    by_model = compare(facts.before, facts.after, CompareBy.MODEL)
    moved = sorted(by_model.items(), key=lambda each: (-abs(each[1].price_nano), each[0]))
    named = [f"{model or 'no model'} {change(found.price_nano)}" for model, found in moved if _is_seen(found)]
    rest = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    told = ", ".join(named[:NAMED_MAX]) + rest
    if facts.version is None:
        return f"Other averages at the same prices: {told}" if told else "No price changed"
    number, date = facts.version
    return f"Version {number} since {date}: {told or 'nothing that was used'}"


def _is_seen(found: PriceDifference) -> bool:
    return change(found.price_nano) not in ("0.00", "+0.00")


def _tiers(facts: BridgeFacts) -> str:
    earlier, later = (month_name(month) for month in facts.months)
    now = sum(sums.tiers_nano for sums in facts.after.values())
    told = [_booked(later, now) if facts.closed else f"Worked out when {later} closes"]
    if facts.tiers_before_nano:
        told.append(_booked(earlier, facts.tiers_before_nano))
    return "; ".join(told)


def _booked(month: str, nano: int) -> str:
    if nano == 0:
        return f"None in {month}"
    return (
        f"{month} got {cents(-nano)} back on its last day"
        if nano < 0
        else f"{month} had {cents(nano)} added on its last day"
    )


def _corrections(facts: BridgeFacts) -> str:
    before, after = facts.corrected
    if not before and not after:
        return "None"
    told = [_of(after)] if after else []
    if before:
        told.append(f"{month_name(facts.months[0])}: {_of(before).lower()}")
    return "; ".join(told)


def _of(corrected: Corrected) -> str:
    word = "Refund" if sum(nano for _, nano in corrected) < 0 else "Correction"
    dates = [date for date, _ in corrected]
    more = len(dates) - DATES_MAX
    told = f"{', '.join(dates[:DATES_MAX])} and {more} more days" if more > 0 else listed(dates)
    return f"{word}{'s' if len(dates) > 1 else ''} of {told}"


def _tokens(month: Month) -> int:
    return sum(_by(month, "model").values())
