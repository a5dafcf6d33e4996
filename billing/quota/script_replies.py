"""Arguments and replies of the scripts on a tenant's hash slot keys, as typed values. Pure."""

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from billing.limits import WALLET, Dimension, MoneyLimit, RequestLimits
from billing.quota.bindings import prices_of
from billing.quota.script_calls import AdmitReply, RefusedLimit
from billing.quota.types import Admission, AdmissionState, Admitted, LeastRemaining, Remaining
from billing.usage import PinnedPrices
from core.errors import Refusal

FOUR = b"\x94"  # the head of an array of four in msgpack


def packed(limits: RequestLimits, prices: PinnedPrices) -> bytes:
    """Limits and prices as admit.lua reads them. Input is held at the dearer of its two prices."""
    dearer = max(prices.input_nano, prices.cached_input_nano)
    of_prices = msgspec.msgpack.encode((dearer, prices.output_nano, prices.request_nano))
    return FOUR + limits.packed + of_prices


def admitted_of(a: Admission, reply: AdmitReply, now_ms: int) -> Admitted:
    """Binding of a request, from admit.lua's reply."""
    prices = prices_of(reply.prices)
    return Admitted(
        dup=reply.dup,
        pool=reply.pool,
        fingerprint=reply.fingerprint,
        price_version=prices.version,
        prices=prices,
        cancelled=reply.cancelled,
        granted=reply.granted,
        state=AdmissionState(reply.state),
        standing=least_remaining_of(a.limits, reply.left) if reply.left else LeastRemaining(),
        shadowed=[refusal_of(a.limits, answer, now_ms) for answer in reply.shadowed],
    )


def refusal_of(limits: RequestLimits, answer: RefusedLimit, now_ms: int) -> Refusal:
    """Refusal from admit.lua's reply."""
    kind, number, limit, remaining, spent, held, after = answer
    if kind == "money":
        of = limits.money[number - 1]
        ends = None if of.period in (WALLET, "lifetime") else of.window.end_ms
        return money_refusal(of.scope.value, of.period, (limit, remaining, spent, held), ends)
    unit = (limits.rates if kind == "rate" else limits.concurrency)[number - 1]
    after_ms = None if after < 0 else after
    what = unit.dimension.value.replace("_", " ")
    never = limit == 0  # waiting lets nobody in
    return Refusal(
        "insufficient_quota" if never else "rate_limited",
        f"the {unit.scope.value}'s limit of {limit} {what} {'lets nothing in' if never else 'is reached'}",
        retry=after_ms is not None,
        after_ms=after_ms,
        scope=unit.scope.value,
        limit=limit,
        dimension=unit.dimension.value,
        remaining=remaining,
        resets_at_ms=now_ms + after if kind == "rate" and after >= 0 else None,
    )


def money_refusal(scope: str, period: str, sums: tuple[int, int, int, int], ends_ms: int | None) -> Refusal:
    """Refusal by a budget or the wallet. `sums`: limit, remaining, spent, held. A budget of 0 begins anew as
    it was: no end of it is named."""
    limit, remaining, spent, held = sums
    wallet = period == WALLET
    never = limit == 0 and not wallet
    budget = f"the {scope}'s budget {'allows no spending' if never else 'is used up'}"
    return Refusal(
        "insufficient_quota" if wallet else "budget_exceeded",
        "the prepaid credit is used up" if wallet else budget,
        scope=scope,
        limit=limit,
        dimension=period,
        remaining=remaining,
        spent=spent,
        held=held,
        resets_at_ms=None if never else ends_ms,
    )


def refusal_of_key(key: str, sums: tuple[int, int, int, int], ends_ms: int) -> Refusal:
    """Refusal by the money limit that this key names."""
    _, scope, _, period, _ = split_limit_key(key)
    return money_refusal(scope, period, sums, None if period in (WALLET, "lifetime") else ends_ms)


def split_limit_key(key: str) -> list[str]:
    """Parts of a limit's key: kind, scope, its id, then the subject."""
    return [unquote(part) for part in key.split(":")]


def least_remaining_of(limits: RequestLimits, left: Sequence[int]) -> LeastRemaining:
    """The limits with the least left, from admit.lua's remainders of each limit."""
    rates = limits.rates
    requests: list[Remaining] = []
    tokens: list[Remaining] = []
    for at, each in enumerate(rates):
        if not each.shadow:
            found = tokens if each.dimension is not Dimension.REQUESTS else requests
            found.append(Remaining(each.limit, left[2 * at], left[2 * at + 1]))
    first = 2 * len(rates) + len(limits.concurrency)
    money = [
        Remaining(each.limit_nano, left[first + at], None if each.period == WALLET else each.window.end_ms)
        for at, each in enumerate(limits.money)
        if each.hard and not each.shadow
    ]
    return LeastRemaining(_least(requests), _least(tokens), _least(money))


def _least(found: Sequence[Remaining]) -> Remaining | None:
    return min(found, key=lambda each: each.remaining, default=None)


def window_member(limit: MoneyLimit) -> str:
    """The name that settle.lua uses for a counted window of money."""
    kind = "money~" if limit.shadow else "money"
    return f"{kind}|{limit.scope.value}|{limit.period}|{limit.window.start_ms}"
