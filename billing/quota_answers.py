"""What is sent to the scripts of the tenant slot and what their replies mean. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from billing.limits import WALLET, Dimension, Limits, MoneyLimit, UnitLimit
from billing.quota_types import Remaining, Standing
from billing.usage import PinnedPrices
from core.errors import Refusal

COUNTS = {Dimension.REQUESTS: 1, Dimension.INPUT: 2, Dimension.OUTPUT: 3, Dimension.TOKENS: 4}
RETRY_UNKNOWN_MS = 1_000


def rates_of(limits: Limits) -> list[UnitLimit]:
    """In the order of the scripts."""
    return [each for each in limits.units if each.dimension is not Dimension.CONCURRENCY]


def concurrency_of(limits: Limits) -> list[UnitLimit]:
    """In the order of the scripts."""
    return [each for each in limits.units if each.dimension is Dimension.CONCURRENCY]


def packed(limits: Limits, prices: PinnedPrices) -> bytes:
    """The limits as admit.lua reads them. Input is held at the dearer of its two prices."""
    rates = [
        (each.key, COUNTS[each.dimension], each.limit, each.burst, each.shadow) for each in rates_of(limits)
    ]
    concurrency = [(each.key, each.limit, each.shadow) for each in concurrency_of(limits)]
    money = [
        (
            each.key,
            each.limit_nano,
            each.override_nano or 0,
            each.override_until_ms if each.override_nano is not None else 0,
            each.hard,
            each.shadow,
            each.window.end_ms,
            each.revision,
        )
        for each in limits.money
    ]
    dearer = max(prices.input_nano, prices.cached_input_nano)
    return msgspec.msgpack.encode(
        (rates, concurrency, money, (dearer, prices.output_nano, prices.request_nano))
    )


def refusal_of(limits: Limits, answer: Sequence[Any], now_ms: int) -> Refusal:
    """A refusal as admit.lua says it."""
    kind, number, limit, remaining, spent, held, after = answer
    if kind == b"money":
        of = limits.money[number - 1]
        ends = None if of.period in (WALLET, "lifetime") else of.window.end_ms
        return money_refusal(of.scope.value, of.period, (limit, remaining, spent, held), ends)
    unit = (rates_of if kind == b"rate" else concurrency_of)(limits)[number - 1]
    after_ms = None if after < 0 else after
    what = unit.dimension.value.replace("_", " ")
    return Refusal(
        "rate_limited",
        f"the {unit.scope.value}'s limit of {limit} {what} is reached",
        retry=after_ms is not None,
        after_ms=after_ms,
        scope=unit.scope.value,
        limit=limit,
        dimension=unit.dimension.value,
        remaining=remaining,
        resets_at_ms=now_ms + after if kind == b"rate" and after >= 0 else None,
    )


def money_refusal(scope: str, period: str, sums: tuple[int, int, int, int], ends_ms: int | None) -> Refusal:
    """No money: of a budget, or of the wallet. `sums`: limit, remaining, spent, held."""
    limit, remaining, spent, held = sums
    wallet = period == WALLET
    return Refusal(
        "insufficient_quota" if wallet else "budget_exceeded",
        "the prepaid credit is used up" if wallet else f"the {scope}'s budget is used up",
        scope=scope,
        limit=limit,
        dimension=period,
        remaining=remaining,
        spent=spent,
        held=held,
        resets_at_ms=ends_ms,
    )


def refusal_of_key(key: str, sums: tuple[int, int, int, int], ends_ms: int) -> Refusal:
    """A refusal by the count of money that this key names."""
    _, scope, _, period, _ = parts_of(key)
    return money_refusal(scope, period, sums, None if period in (WALLET, "lifetime") else ends_ms)


def parts_of(key: str) -> list[str]:
    """What a key of a limit was made of: kind, scope, its id, then what is counted."""
    return [unquote(part) for part in key.split(":")]


def standing_of(limits: Limits, left: Sequence[int]) -> Standing:
    """The least that is left, of what admit.lua says is left of each limit."""
    rates = rates_of(limits)
    requests: list[Remaining] = []
    tokens: list[Remaining] = []
    for at, each in enumerate(rates):
        if not each.shadow:
            found = tokens if each.dimension is not Dimension.REQUESTS else requests
            found.append(Remaining(each.limit, left[2 * at], left[2 * at + 1]))
    first = 2 * len(rates) + len(concurrency_of(limits))
    money = [
        Remaining(each.limit_nano, left[first + at], None if each.period == WALLET else each.window.end_ms)
        for at, each in enumerate(limits.money)
        if each.hard and not each.shadow
    ]
    return Standing(_least(requests), _least(tokens), _least(money))


def _least(found: Sequence[Remaining]) -> Remaining | None:
    return min(found, key=lambda each: each.remaining, default=None)


def money_fields(record: Mapping[bytes, bytes] | Sequence[bytes | None], names: Sequence[str]) -> list[int]:
    """Numbers of a hash, 0 where they are missing."""
    values = record.values() if isinstance(record, Mapping) else record
    return [int(value or 0) for value in list(values)[: len(names)]]


def window_member(limit: MoneyLimit) -> str:
    """How settle.lua knows a window of money that is counted."""
    kind = "money~" if limit.shadow else "money"
    return f"{kind}|{limit.scope.value}|{limit.period}|{limit.window.start_ms}"
