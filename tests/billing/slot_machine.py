"""A tenant's slot on a real Valkey beside the same in plain Python, and what may happen to both: reserve,
extend, settle, duplicates, crashes, sweeps, lost Redis, edits of limits, and windows that roll."""

import asyncio
from collections.abc import Awaitable
from typing import ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from billing.limits import Dimension, MoneyLimit, RequestLimits, Scope, UnitLimit
from billing.periods import PeriodWindow
from billing.quota.client import Quota
from billing.quota.money import MoneyCounts
from billing.quota.types import Admitted
from billing.usage import UsageEvent
from core.configuration.settings import Settings
from tests.billing.limited import LimitedTenant
from tests.billing.slot_histories import BUDGETS, PICKS, SELDOM, TOKENS, UNITS
from tests.billing.slot_model import Bucket, Count, TenantModel, in_window
from tests.support.redis import Redis

T = TypeVar("T")
HOUR_MS = 3_600_000
CHUNK = 16


class TenantKeysMachine(RuleBasedStateMachine):
    """One history. Time goes on by the rules alone; the books are a list of what was billed."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    redis: ClassVar[Redis]
    ran: ClassVar[set[str]] = set()  # what was answered, in all histories
    config: ClassVar[Settings]

    def __init__(self) -> None:
        super().__init__()
        self.run(self.redis.flushall())
        self.tenant = LimitedTenant(self.redis, self.config)
        self.quota = Quota(self.redis, self.config)
        self.counts = MoneyCounts(self.redis)
        self.model = TenantModel((1_000_000, 2_000_000))
        self.units: tuple[UnitLimit, ...] = ()
        self.budgets: list[tuple[Scope, int, bool, bool]] = []
        self.revision = 0
        self.lost = False
        self.numbers = 0
        self.sound: dict[str, int] = {}  # the limits of hard counts that were never edited, or lost
        self.billed: list[tuple[int, int]] = []  # accepted_ms and cost, a line each
        self.unsettled: list[UsageEvent] = []
        self.booked: list[tuple[UsageEvent, int]] = []

    def run(self, work: Awaitable[T]) -> T:
        """To its end."""
        return self.loop.run_until_complete(_awaited(work))

    @property
    def now(self) -> int:
        """The history's time."""
        return self.tenant.now

    def limits(self) -> RequestLimits:
        """What a gateway knows now."""
        start = self.now - self.now % HOUR_MS
        window = PeriodWindow(start, start + HOUR_MS)
        money = (
            MoneyLimit(
                scope,
                "u1" if scope is Scope.USER else "",
                "day",
                window,
                limit,
                hard,
                shadow,
                revision=self.revision,
            )
            for scope, limit, hard, shadow in self.budgets
        )
        return RequestLimits(self.units, tuple(money))

    @initialize(units=UNITS, budgets=BUDGETS)
    def begin(self, units: list[UnitLimit], budgets: list[tuple[Scope, int, bool, bool]]) -> None:
        """The first limits."""
        self.edit(units, budgets)

    @rule(units=UNITS, budgets=BUDGETS, really=SELDOM)
    def other_limits(
        self, units: list[UnitLimit], budgets: list[tuple[Scope, int, bool, bool]], really: bool
    ) -> None:
        """Some are edited, some are gone, some are new."""
        if really:
            self.edit(units, budgets)

    def edit(self, units: list[UnitLimit], budgets: list[tuple[Scope, int, bool, bool]]) -> None:
        """Other limits, from the next request on."""
        self.units, self.budgets = tuple(units), budgets
        self.sound.clear()
        self.revision += 1

    @rule(ms=st.sampled_from([1, 10, 100, 100, 1_000, 1_999, 7_777, 60_000, HOUR_MS]))
    def wait(self, ms: int) -> None:
        """Buckets fill, windows roll."""
        self.tenant.now += ms

    @rule(
        what=st.sampled_from(["reserve", "reserve", "extend", "extend", "end", "book", "bring"]),
        pick=PICKS,
        inputs=st.lists(TOKENS, min_size=1, max_size=4),
        more=st.sampled_from([0, 1, 7, 16, 40, 200]),
        yes=st.booleans(),
    )
    def live(self, what: str, pick: int, inputs: list[int], more: int, yes: bool) -> None:
        """What happens all the time. One rule, so that every history has all of it."""
        match what:
            case "reserve":
                self.reserve(inputs)
            case "extend":
                self.extend(pick, more, len(inputs))
            case "end":
                self.end(pick, inputs[0], yes)
            case "book":
                self.book(yes)
            case _:
                self.bring(pick, len(inputs), yes)

    def reserve(self, inputs: list[int]) -> None:
        """New requests."""
        for input in inputs:
            self.numbers += 1
            self.send(f"r{self.numbers}", input)

    @rule(pick=PICKS, input=TOKENS)
    def again(self, pick: int, input: int) -> None:
        """One that was sent before; what was released or lost is a new one."""
        if self.numbers:
            self.send(f"r{max(1, self.numbers - pick)}", input)

    def send(self, id: str, input: int) -> None:
        """Cold counts begin with what the books say."""
        if self.pending(id):
            return
        limits = self.limits()
        if not self.known(id):
            self.warm(limits)
        self.tenant.limits = limits
        answer = self.run(self.tenant.ask(id, input, CHUNK, deadline_ms=self.now + 50_000))
        if self.known(id):
            assert isinstance(answer, Admitted)
            assert answer.dup
            return
        chunk = self.model.admits(limits, input, CHUNK, self.now)
        admits = chunk is not None
        assert isinstance(answer, Admitted) == admits, answer
        self.ran.add("let in" if admits else "turned away")
        if isinstance(answer, Admitted):
            assert chunk is not None
            assert answer.granted == chunk or (answer.granted > 1 << 20 and not limits.money)
            self.model.admit(id, limits, input, chunk, self.now, self.now + 50_000)
            self.model.requests[id].granted = answer.granted

    def known(self, id: str) -> bool:
        """Open or ended."""
        request = self.model.requests.get(id)
        return request is not None and request.state != "released"

    def warm(self, limits: RequestLimits) -> None:
        """As `admit` does by itself where there are books."""
        for limit in limits.money:
            if limit.key not in self.model.counts:
                self.seed(limit, anew=False)
                open_before = any(not each.booked for each in self.model.requests.values())
                fits = self.model.counts[limit.key].posted <= limit.limit_nano
                if limit.hard and fits and not (limit.shadow or self.lost or open_before):
                    self.sound[limit.key] = limit.limit_nano

    def seed(self, limit: MoneyLimit, *, anew: bool) -> None:
        """From the books, by three gateways at once."""
        spent = sum(cost for accepted, cost in self.billed if in_window(limit.key, accepted))
        seq = len(self.billed)

        async def thrice() -> list[bool]:
            each = [self.counts.put("t1", [(limit, spent, seq)], anew=anew) for _ in range(3)]
            return await asyncio.gather(*each)

        assert self.run(thrice()) == [True] * 3
        count = self.model.counts.setdefault(limit.key, Count())
        count.posted, count.seed = spent, seq

    def open(self, pick: int) -> str | None:
        """One of the open requests."""
        found = [id for id, each in self.model.requests.items() if each.state == "open"]
        return found[pick % len(found)] if found else None

    def extend(self, pick: int, more: int, times: int) -> None:
        """A worker asks for more, and again where it is told to wait."""
        for _ in range(times):
            id = self.open(pick)
            if id is not None and self.model.requests[id].granted < 1 << 20:
                self.ask_for(id, more)

    def ask_for(self, id: str, more: int) -> None:
        """More tokens for one."""
        request = self.model.requests[id]
        target = request.granted + more
        answer = self.run(self.tenant.extend(id, target))
        what = "wait" if answer.wait_ms else "refused" if answer.refusal else "granted"
        expected = self.model.extend(id, target, self.now)
        assert (answer.granted, what) == expected, f"{id} to {target}: {answer}, not {expected}"
        self.ran.add(what)

    def end(self, pick: int, output: int, settled: bool) -> None:
        """A worker ends it, and dies before it settles or not. The event is on the stream in any case."""
        id = self.open(pick)
        if id is None or self.pending(id):
            return
        request = self.model.requests[id]
        used = min(output, request.granted)
        self.unsettled.append(self.event(id, used))
        if settled:
            self.settle(self.unsettled[-1], None)

    def pending(self, id: str) -> bool:
        """Its end waits for the biller."""
        booked = [ended for ended, _ in self.booked]
        return any(each.request == id for each in (*self.unsettled, *booked))

    def event(self, id: str, output: int) -> UsageEvent:
        """The end of a request."""
        request = self.model.requests[id]
        return self.tenant.event(id, request.input, output, accepted_ms=request.accepted)

    def book(self, last: bool) -> None:
        """The biller commits the lines of a request that ended, and may die then."""
        if self.unsettled:
            ended = self.unsettled.pop(-1 if last else 0)
            self.billed.append((ended.accepted_ms, ended.cost_nano))
            self.booked.append((ended, len(self.billed)))

    def bring(self, pick: int, times: int, over: bool) -> None:
        """It settles one that is booked, and may do it once more, much later too."""
        if self.booked:
            ended, seq = self.booked[-1 - pick % len(self.booked)]
            for _ in range(times):
                self.settle(ended, seq)
            if over and len(self.booked) > 4:
                self.brought(self.booked.index((ended, seq)))

    def brought(self, at: int) -> None:
        """Never delivered again."""
        del self.booked[at]

    def settle(self, ended: UsageEvent, seq: int | None) -> None:
        """The worker's way, or with `seq` the biller's."""
        answer = self.run(self.quota.settle(ended, seq, self.now))
        self.ran.add(answer)
        used = (ended.input_uncached, ended.output_text)
        assert answer == self.model.settle(ended.request, ended.cost_nano, used, self.now, seq)
        if answer == "unknown" and seq is not None:
            self.reseed()

    @rule(pick=PICKS)
    def release(self, pick: int) -> None:
        """The queue refuses it. It may run all the same, where another gateway had enqueued it."""
        id = self.open(pick)
        if id is not None and not self.pending(id):
            assert self.run(self.quota.release("t1", id, self.now)) == self.model.release(id, self.now)
            if pick == 0:
                self.unsettled.append(self.event(id, 3))
                self.sound.clear()  # what it uses it does not hold

    @rule(really=SELDOM)
    def correction(self, really: bool) -> None:
        """What is posted is read anew."""
        if really:
            self.reseed()

    def reseed(self) -> None:
        """From the books, everything that is counted."""
        for each in self.run(self.counts.counted("t1")):
            if each.key in self.model.counts:
                self.seed(each, anew=True)

    @rule()
    def sweep(self) -> None:
        """What was admitted a minute ago and never reached a queue is released."""
        for hold in self.run(self.quota.holds("t1", self.now - 60_000)):
            if not self.pending(hold.id):
                released = self.run(self.quota.release("t1", hold.id, self.now))
                assert released == self.model.release(hold.id, self.now)

    @rule(really=SELDOM)
    def flush(self, really: bool) -> None:
        """Redis loses everything. What had ended is still on the stream."""
        if not really:
            return
        self.run(self.redis.flushall())
        self.model.flush()
        self.sound.clear()
        self.lost = True

    @invariant()
    def counts_agree(self) -> None:
        """posted + unbooked + held, each to the nano; held is what is open."""
        for each in self.run(self.quota.budget_sums("t1")):
            key = _key_of(each.shadow, each.scope, each.scope_id, each.window_start_ms)
            count = self.model.counts[key]
            assert (each.posted_nano, each.unbooked_nano, each.held_nano, each.open) == (
                count.posted,
                count.unbooked,
                self.model.held(key),
                len(self.model.holders(key)),
            )

    @invariant()
    def posted_is_what_was_billed(self) -> None:
        """Where all that is booked was brought here, each line once; never more than that."""
        all_brought = all(self.known_ended(ended.request) for ended, _ in self.booked)
        for key, count in self.model.counts.items():
            billed = sum(cost for accepted, cost in self.billed if in_window(key, accepted))
            assert count.posted <= billed
            if all_brought:
                assert count.posted == billed

    def known_ended(self, id: str) -> bool:
        """Its lines were brought here."""
        request = self.model.requests.get(id)
        return request is not None and request.booked

    @invariant()
    def hard_limits_hold(self) -> None:
        """posted + unbooked + held <= limit, but where the limit was lowered or a hold was lost. What is in a
        seed and not brought yet counts twice meanwhile."""
        if not all(self.known_ended(ended.request) for ended, _ in self.booked):
            return
        for each in self.run(self.quota.budget_sums("t1")):
            key = _key_of(each.shadow, each.scope, each.scope_id, each.window_start_ms)
            if key in self.sound:
                total = each.posted_nano + each.unbooked_nano + each.held_nano
                assert total <= self.sound[key], f"{each} over {self.sound[key]}"

    @invariant()
    def buckets_agree(self) -> None:
        """To the sixty-thousandth."""
        for unit in self.units:
            if unit.dimension is Dimension.CONCURRENCY:
                found = self.run(self.redis.zcount("{t:t1}" + unit.key, f"({self.now}", "+inf"))
                assert found == self.model.live(unit.key, self.now)
                continue
            value = self.run(self.redis.get("{t:t1}" + unit.key))
            used, at, rate = (int(part) for part in (value or b"0:0:0").split(b":"))
            bucket = self.model.buckets.get(unit.key, Bucket())
            assert Bucket(used, at, rate).now(self.now) == bucket.now(self.now)

    @invariant()
    def open_requests_agree(self) -> None:
        """Nothing that is over is counted as open, and nothing open is forgotten."""
        found = {hold.id: hold.held_nano for hold in self.run(self.quota.holds("t1"))}
        assert found == {
            id: each.hold if each.limits.money else 0
            for id, each in self.model.requests.items()
            if each.state == "open"
        }

    def check(self) -> None:
        """All that must hold after each step."""
        self.counts_agree()
        self.posted_is_what_was_billed()
        self.hard_limits_hold()
        self.buckets_agree()
        self.open_requests_agree()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _key_of(shadow: bool, scope: str, scope_id: str, start: int) -> str:
    return f"money{'~' if shadow else ''}:{scope}:{scope_id}:day:{start}"
