"""Builders of limits, and of requests under them."""

from dataclasses import replace

import msgspec

from billing.limits import Dimension, MoneyLimit, RequestLimits, Scope, UnitLimit
from billing.periods import PeriodWindow
from billing.prices.rating import Counts, rate
from billing.quota.client import Quota
from billing.quota.money import MoneyCounts
from billing.quota.types import Admission, Admitted, AllowanceExtension
from billing.usage import PinnedPrices, UsageEvent, UsageOwner
from core.configuration.settings import Settings
from core.errors import Refusal
from tests.support.redis import Redis

NOW = 4_000_000_000_000  # in 2096: what Redis forgets by its own clock is not forgotten
WINDOW = PeriodWindow(NOW - 500_000_000, NOW + 2_000_000_000)
NANO = PinnedPrices(
    book="b", version=1, input_nano=1_000_000, cached_input_nano=500_000, output_nano=2_000_000
)


def a_rate(dimension: Dimension, limit: int, burst: int | None = None, **facts: object) -> UnitLimit:
    """A limit of the tenant on everything."""
    of = UnitLimit(Scope.TENANT, "", "*", dimension, limit, limit if burst is None else burst)
    return replace(of, **facts)  # type: ignore[arg-type]


def places(limit: int, *, shadow: bool = False) -> UnitLimit:
    """A limit on how many may be open at once."""
    return a_rate(Dimension.CONCURRENCY, limit, shadow=shadow)


def a_budget(limit_nano: int, **facts: object) -> MoneyLimit:
    """A hard budget of the tenant for a month."""
    return replace(MoneyLimit(Scope.TENANT, "", "month", WINDOW, limit_nano), **facts)  # type: ignore[arg-type]


class LimitedTenant:
    """A tenant whose requests are sent under the same limits, and whose clock is the test's."""

    def __init__(self, redis: Redis, settings: Settings, *limits: UnitLimit | MoneyLimit) -> None:
        self.redis = redis
        self.quota = Quota(redis, settings)
        self.now = NOW
        self.limits = RequestLimits()
        self.prices = NANO
        self.limit(*limits)

    def limit(self, *limits: UnitLimit | MoneyLimit) -> None:
        """From now on these hold."""
        units = tuple(each for each in limits if isinstance(each, UnitLimit))
        self.limits = RequestLimits(units, tuple(each for each in limits if isinstance(each, MoneyLimit)))

    def admission(self, id: str, input: int = 100, chunk: int = 256, **facts: object) -> Admission:
        """A request of it."""
        of = Admission(
            tenant="t1",
            id=id,
            body_hash="h",
            owner_key="k1",
            project="p1",
            user="u1",
            model="m1",
            pool="A",
            fingerprint="f",
            input_tokens=input,
            chunk_tokens=chunk,
            deadline_ms=self.now + 600_000,
            prices=self.prices,
            now_ms=self.now,
            limits=self.limits,
        )
        return replace(of, **facts)  # type: ignore[arg-type]

    async def ask(self, id: str, input: int = 100, chunk: int = 256, **facts: object) -> Admitted | Refusal:
        """The answer to a request."""
        return await self.quota.admit(self.admission(id, input, chunk, **facts))

    async def admit(self, id: str, input: int = 100, chunk: int = 256, **facts: object) -> Admitted:
        """The answer to one that must not be refused."""
        answer = await self.ask(id, input, chunk, **facts)
        assert isinstance(answer, Admitted), answer
        return answer

    async def refused(self, id: str, input: int = 100, chunk: int = 256, **facts: object) -> Refusal:
        """The answer to one that must be."""
        answer = await self.ask(id, input, chunk, **facts)
        assert isinstance(answer, Refusal), answer
        return answer

    async def extend(self, id: str, to_tokens: int) -> AllowanceExtension:
        """At the tenant's time."""
        return await self.quota.extend("t1", id, to_tokens, self.now)

    def event(self, id: str, input: int = 100, output: int = 0, **facts: object) -> UsageEvent:
        """The end of one, rightly priced."""
        event = UsageEvent(
            tenant="t1",
            request=id,
            pool="A",
            model="m1",
            fingerprint="f",
            owner=UsageOwner(project="p1", key="k1", user="u1"),
            accepted_ms=self.now,
            ended_ms=self.now,
            reason="stop",
            prices=self.prices,
            input_uncached=input,
            output_text=output,
            cost_nano=rate(Counts(input_uncached=input, output_text=output), self.prices)[1],
        )
        return msgspec.structs.replace(event, **facts)

    async def settle(self, id: str, input: int = 100, output: int = 0, line_seq: int | None = None) -> str:
        """End one, as a worker does, or with `line_seq` as the biller does."""
        return await self.quota.settle(self.event(id, input, output), line_seq, self.now)

    async def seed(self, *limits: MoneyLimit, spent: int = 0, seq: int = 0) -> None:
        """Nothing, or so much, is in the books."""
        read = [(limit, spent, seq) for limit in limits or self.limits.money]
        assert await MoneyCounts(self.redis).put("t1", read, anew=False)

    async def sums(self) -> tuple[int, int, int]:
        """Posted, unbooked and held of the only budget."""
        (found,) = await self.quota.budget_sums("t1")
        return found.posted_nano, found.unbooked_nano, found.held_nano
