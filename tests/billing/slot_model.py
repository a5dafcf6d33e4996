"""The tenant slot in plain Python: what admission, grants and settlements mean, without Redis. Pure."""

from dataclasses import dataclass, field
from math import ceil

from billing.limits import Dimension, MoneyLimit, RequestLimits, UnitLimit

UNIT = 60_000
GRACE_MS = 60_000
WAIT_MS = 2_000


@dataclass
class Bucket:
    """What was taken and did not flow back, as of a time, and how fast it flows."""

    used: int = 0
    at: int = 0
    rate: int = 0

    def now(self, now: int) -> int:
        """What is used now."""
        return max(0, self.used - max(0, now - self.at) * self.rate)

    def take(self, amount: int, now: int, rate: int) -> None:
        """Or give back."""
        self.used, self.at = max(0, self.now(now) + amount), max(now, self.at)
        self.rate = rate


@dataclass
class Count:
    """One budget in one window."""

    posted: int = 0
    unbooked: int = 0
    seed: int = 0
    limit: int = 0
    hard: bool = True


@dataclass
class ModelRequest:
    """What the slot knows of one."""

    limits: RequestLimits
    input: int
    granted: int
    deadline: int
    accepted: int
    hold: int
    state: str = "open"
    wait_from: int | None = None
    cost: int = 0
    booked: bool = False


def line(tokens: int, price: int) -> int:
    """The most that lines of these tokens cost."""
    return ceil(tokens * price / 1_000_000) + 1 if tokens and price else 0


@dataclass
class TenantModel:
    """A tenant's slot. Prices: of input, of output; whole nano for a token, so that the model is obvious."""

    prices: tuple[int, int]
    buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])
    counts: dict[str, Count] = field(default_factory=dict[str, Count])
    places: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    requests: dict[str, ModelRequest] = field(default_factory=dict[str, ModelRequest])

    def flush(self) -> None:
        """Redis is empty."""
        for each in (self.buckets, self.counts, self.places, self.requests):
            each.clear()

    def cost(self, input: int, output: int) -> int:
        """Of tokens that are held."""
        return line(input, self.prices[0]) + line(output, self.prices[1])

    def held(self, key: str) -> int:
        """By all that is open."""
        return sum(each.hold for each in self.holders(key))

    def holders(self, key: str) -> list[ModelRequest]:
        """Who holds of a budget."""
        return [
            each
            for each in self.requests.values()
            if each.state == "open" and key in [limit.key for limit in each.limits.money]
        ]

    def left(self, limit: MoneyLimit) -> int:
        """Of a budget."""
        count = self.counts[limit.key]
        return count.limit - count.posted - count.unbooked - self.held(limit.key)

    def live(self, key: str, now: int) -> int:
        """Places that are taken."""
        return sum(until > now for until in self.places.get(key, {}).values())

    def admits(self, limits: RequestLimits, input: int, chunk: int, now: int) -> int | None:
        """How many tokens of output it is granted at first; None: something refuses it."""
        for limit in limits.money:
            if limit.hard and not limit.shadow:
                before, self.counts[limit.key].limit = self.counts[limit.key].limit, limit.limit_nano
                left = max(0, self.left(limit))
                self.counts[limit.key].limit = before
                while chunk > 1 and self.cost(input, chunk) > left:
                    chunk //= 2
                if self.cost(input, chunk) > left:
                    return None
        for unit in limits.units:
            if not unit.shadow and not self._unit_admits(unit, input, chunk, now):
                return None
        return chunk

    def _unit_admits(self, unit: UnitLimit, input: int, chunk: int, now: int) -> bool:
        if unit.dimension is Dimension.CONCURRENCY:
            return self.live(unit.key, now) < unit.limit
        used = self.buckets.get(unit.key, Bucket()).now(now)
        return unit.limit > 0 and (used == 0 or used + taken(unit, 1, input, chunk) <= unit.burst * UNIT)

    def admit(self, id: str, limits: RequestLimits, input: int, chunk: int, now: int, deadline: int) -> None:
        """It was let in."""
        for unit in limits.units:
            if unit.dimension is Dimension.CONCURRENCY:
                self.places.setdefault(unit.key, {})[id] = deadline + GRACE_MS
            else:
                self.buckets.setdefault(unit.key, Bucket()).take(
                    taken(unit, 1, input, chunk), now, unit.limit
                )
        for limit in limits.money:
            self.counts[limit.key].limit, self.counts[limit.key].hard = limit.limit_nano, limit.hard
        hold = self.cost(input, chunk)
        self.requests[id] = ModelRequest(limits, input, chunk, deadline, now, hold)

    def extend(self, id: str, target: int, now: int) -> tuple[int, str]:
        """Granted in all, and "granted", "wait" or "refused"."""
        request = self.requests[id]
        if request.state != "open" or target <= request.granted:
            return request.granted, "granted"
        tokens = target - request.granted
        hard = [each for each in request.limits.money if self.counts[each.key].hard and not each.shadow]
        while tokens > 1 and any(self._blocks(request, limit, tokens) for limit in hard):
            tokens //= 2
        for limit in hard:
            if self._blocks(request, limit, 1):
                since = now if request.wait_from is None else request.wait_from
                if self.held(limit.key) > request.hold and now - since < WAIT_MS:
                    request.wait_from = since
                    return request.granted, "wait"
                return request.granted, "refused"
        self._take(request.limits, 0, 0, tokens, now)
        request.granted += tokens
        request.hold = self.cost(request.input, request.granted)
        request.wait_from = None
        return request.granted, "granted"

    def _blocks(self, request: ModelRequest, limit: MoneyLimit, tokens: int) -> bool:
        more = self.cost(request.input, request.granted + tokens) - request.hold
        streams = max(1, len(self.holders(limit.key))) if tokens > 1 else 1
        return more > 0 and more * streams > self.left(limit)

    def _take(self, limits: RequestLimits, requests: int, input: int, output: int, now: int) -> None:
        for unit in limits.units:
            if unit.dimension is not Dimension.CONCURRENCY and taken(unit, requests, input, output):
                bucket = self.buckets.setdefault(unit.key, Bucket(rate=unit.limit))
                rate = bucket.rate if bucket.now(now) or bucket.used else unit.limit
                bucket.take(taken(unit, requests, input, output), now, rate)

    def close(self, id: str, now: int, used: tuple[int, int, int]) -> None:
        """Its places and holds go; buckets get the difference."""
        request = self.requests[id]
        held = (1, request.input, request.granted) if request.state == "open" else (0, 0, 0)
        self._take(request.limits, used[0] - held[0], used[1] - held[1], used[2] - held[2], now)
        for unit in request.limits.units:
            self.places.get(unit.key, {}).pop(id, None)

    def release(self, id: str, now: int) -> bool:
        """The queue refused it."""
        if id not in self.requests or self.requests[id].state != "open":
            return False
        self.close(id, now, (0, 0, 0))
        self.requests[id].state = "released"
        return True

    def settle(self, id: str, cost: int, tokens: tuple[int, int], now: int, seq: int | None) -> str:
        """It ended; with `seq` its last line is in the books."""
        request = self.requests.get(id)
        if request is None:
            return "unknown"
        if request.state == "ended":
            if seq is not None and not request.booked:
                for limit in request.limits.money:
                    if limit.key in self.counts:
                        self.counts[limit.key].unbooked -= request.cost
                self._post(request.accepted, cost, seq)
                request.booked = True
            return "dup"
        self.close(id, now, (1, *tokens))
        request.state, request.cost, request.booked = "ended", cost, seq is not None
        if seq is not None:
            self._post(request.accepted, cost, seq)
        else:
            for limit in request.limits.money:
                self.counts[limit.key].unbooked += cost
        return "settled"

    def _post(self, accepted: int, cost: int, seq: int) -> None:
        for key, count in self.counts.items():
            if in_window(key, accepted) and seq > count.seed:
                count.posted += cost


def in_window(key: str, accepted: int) -> bool:
    """Whether a request that was accepted then counts there: all here have the same owner, and windows of an
    hour."""
    start = int(key.rsplit(":", 1)[1])
    return start <= accepted < start + 3_600_000


def taken(unit: UnitLimit, requests: int, input: int, output: int) -> int:
    """What a limit counts of them, in sixty-thousandths."""
    of = {
        Dimension.REQUESTS: requests,
        Dimension.INPUT: input,
        Dimension.OUTPUT: output,
        Dimension.TOKENS: input + output,
        Dimension.CONCURRENCY: 0,
    }
    return of[unit.dimension] * UNIT
