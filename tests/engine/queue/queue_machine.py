"""The queue as a state machine, beside its model."""

import asyncio
import math
from collections.abc import Awaitable
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.errors import Refusal
from engine.api import AppendCode, ClaimOffer, Control, Enqueued, PriorityClass, RequestStatus, TenantTerms
from engine.queue.types import Append, ReleaseWhy
from tests.engine.builders import FINGERPRINT, append_to, end_entry, pool, request, text, tokens, usage_event
from tests.engine.fair_model import FairModel, Item, Room, Weights
from tests.engine.pool_state import pool_state
from tests.engine.tracked import Tracked, crowd_at, held_at, some
from tests.support.redis import Redis

T = TypeVar("T")

WORKERS = ("w1", "w2", "w3")

TENANTS = ("t1", "t2", "t3")

WEIGHTS = Weights(1.0, 2.0, 20, {PriorityClass.STANDARD: 3_000, PriorityClass.BULK: 5_000})

SIZE = 160

INFO = {"kv_tokens": SIZE, "prefill_tokens_per_second": 20}

CAPS = st.none() | st.integers(1, 3)

LEASE_MS = 3_000


class QueueMachine(RuleBasedStateMachine):
    """Drives a pool and its model side by side."""

    def __init__(self, redis_url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.redis = Redis.from_url(redis_url)
        self.run(self.redis.flushall())
        self.pool = pool(
            self.redis,
            no_worker_seconds_max=1_000_000,
            fair_delta_tokens=WEIGHTS.delta_tokens,
            age_standard_ms=WEIGHTS.ages_ms[PriorityClass.STANDARD],
            age_bulk_ms=WEIGHTS.ages_ms[PriorityClass.BULK],
        )
        self.queue = self.pool.queue
        self.requests: list[Tracked] = []
        self.leases: dict[str, int] = {}
        self.events, self.incarnation, self.orders = 0, 0, iter(range(10**6))
        self.fair = FairModel(WEIGHTS)

    def run(self, call: Awaitable[T]) -> T:
        """Await in this machine's own loop."""
        return self.runner.get_loop().run_until_complete(call)

    def teardown(self) -> None:
        self.run(self.redis.aclose())
        self.runner.close()

    def pick(self, data: st.DataObject, *statuses: RequestStatus) -> Tracked:
        """One of the requests in these states."""
        return data.draw(st.sampled_from([m for m in self.requests if m.status in statuses]))

    @initialize(classes=st.lists(st.sampled_from(PriorityClass), max_size=3))
    def start(self, classes: list[PriorityClass]) -> None:
        for worker in WORKERS[:2]:
            self.start_or_renew(worker)
        for class_ in classes:
            self.enqueue("t1", class_, 10, 0)

    @rule(
        tenant=st.sampled_from(TENANTS),
        class_=st.sampled_from(PriorityClass),
        prompt=st.sampled_from((1, 10, 10, 50)),
        count=st.integers(1, 4),
        retries=st.integers(0, 1),
    )
    def enqueue_some(self, tenant: str, class_: PriorityClass, prompt: int, count: int, retries: int) -> None:
        for _ in range(count):
            self.enqueue(tenant, class_, prompt, retries)

    def enqueue(self, tenant: str, class_: PriorityClass, prompt: int, retries: int) -> None:
        now = self.pool.clock.ms
        e = request(
            tenant=tenant,
            priority=class_,
            deadline_ms=now + 10**9,
            prompt_tokens=prompt,
            granted=prompt,
            max_tokens=prompt,
        )
        replies = [self.run(self.queue.enqueue(e)) for _ in range(1 + retries)]
        if 2 * prompt > (self.fair.tenant(tenant).terms.tokens_max or math.inf):
            assert {r.code for r in replies if isinstance(r, Refusal)} == {"too_large"}
            return
        assert [isinstance(r, Enqueued) and r.created for r in replies] == [True, False][: 1 + retries]
        item = Item(tenant, e.id, class_, next(self.orders), now, prompt, prompt)
        item.large = bool(self.leases) and 2 * prompt > SIZE / 4
        self.requests.append(Tracked(item, incarnation=self.incarnation))
        self.fair.enter(item)

    @rule(
        tenant=st.sampled_from(TENANTS),
        weight=st.sampled_from((0.5, 1.0, 3.0)),
        slots=CAPS,
        tokens=CAPS.map(lambda cap: cap and 40 * cap),
        reserve=st.sampled_from((0, 0, 50)),
        repeats=st.integers(1, 2),
    )
    def set_terms(
        self, tenant: str, weight: float, slots: int | None, tokens: int | None, reserve: int, repeats: int
    ) -> None:
        terms = TenantTerms(weight=weight, slots_max=slots, tokens_max=tokens, reserve_tokens=reserve)
        for _ in range(repeats):
            self.run(self.queue.set_tenant(tenant, terms))
        self.fair.set_terms(tenant, terms)

    @rule()
    def redis_restarts(self) -> None:
        self.reap(1)
        self.run(self.pool.restart())
        self.incarnation += 1
        grace = self.pool.clock.ms + LEASE_MS
        self.leases = {worker: max(lease, grace) for worker, lease in self.leases.items()}
        self.reap(1)

    @rule(class_=st.sampled_from(PriorityClass), reserve=st.sampled_from((0, 100)))
    def set_reserve(self, class_: PriorityClass, reserve: int) -> None:
        self.run(self.queue.set_reserve(class_, reserve))
        self.fair.reserves[class_] = reserve

    @rule(worker=st.sampled_from(WORKERS))
    def start_or_renew(self, worker: str) -> None:
        if worker in self.leases:
            assert self.run(self.queue.renew(worker, 0, INFO)).alive
        else:
            self.pool.calls.pop(worker, None)
            self.run(self.queue.register(worker, FINGERPRINT, INFO))
        self.leases[worker] = self.pool.clock.ms + LEASE_MS

    @rule(ms=st.integers(1, 2_000))
    def time_passes(self, ms: int) -> None:
        self.pool.clock.advance(ms)

    @rule(
        worker=st.sampled_from(WORKERS),
        slots=st.integers(0, 5),
        kv=st.sampled_from((30, 120, 1_000_000)),
        prefill=st.sampled_from((15, 1_000_000, 1_000_000)),
        retries=st.integers(0, 2),
        alive=st.sampled_from((True, True, True, False)),
    )
    def claim(self, worker: str, slots: int, kv: int, prefill: int, retries: int, alive: bool) -> None:
        if alive:
            self.start_or_renew(worker)
        call = self.pool.calls.get(worker, 0) + 1
        self.pool.calls[worker] = call
        offer = ClaimOffer(FINGERPRINT, slots, kv, prefill)
        answers = [self.run(self.queue.claim(worker, call, offer)) for _ in range(1 + retries)]
        assert all(answer == answers[0] for answer in answers)
        now = self.pool.clock.ms
        living = frozenset(name for name, lease in self.leases.items() if lease > now)
        room = Room(worker, slots, kv, prefill, now, 1 / max(1, len(self.leases)), living)
        picks, victims = self.fair.claim(room) if worker in living else ([], [])
        assert [claim.id for claim in answers[0].claims] == [item.id for item in picks]
        assert answers[0].victims == [(item.tenant, item.id) for item in victims]
        for claim, item in zip(answers[0].claims, picks, strict=True):
            m = next(m for m in self.requests if m.item is item)
            m.o += item.claims == 1
            m.status, m.worker, m.claim = RequestStatus.RUNNING, worker, claim
            m.renew_epoch(self.incarnation)
            assert (claim.cn, claim.epoch, claim.n, claim.o) == (item.claims, m.epoch, item.n, m.o)
            assert (claim.tokens, claim.visible, claim.deaths) == (tokens(*m.ids), len(m.text), m.item.deaths)

    @rule(worker=st.sampled_from(WORKERS), behind=st.integers(1, 3))
    def a_late_claim_call_comes_in(self, worker: str, behind: int) -> None:
        call = self.pool.calls.get(worker, 0) - behind
        if call < 0:
            return  # it has not called so often
        offer = ClaimOffer(FINGERPRINT, 5, 1_000_000, 1_000_000)
        assert self.run(self.queue.claim(worker, call, offer)).claims == []

    @precondition(some(RequestStatus.RUNNING))
    @rule(
        data=st.data(),
        count=st.integers(0, 3),
        x=st.text("aé🙂", max_size=4),
        first=st.booleans(),
        retries=st.integers(0, 1),
    )
    def append(self, data: st.DataObject, count: int, x: str, first: bool, retries: int) -> None:
        m = self.pick(data, RequestStatus.RUNNING)
        count = count or int(not x)
        cached = m.item.prompt // 2 if first else None
        self.commit(m, m.next_append(count, x, cached=cached), retries)
        if cached and not m.refunded and m.item.claims == 1:
            m.refunded = True
            self.fair.refund(m.item, cached)
        if count:
            m.item.deaths = 0
        self.fair.append(m.item, count)
        m.text += x
        m.o += bool(x)

    def commit(self, m: Tracked, item: Append, retries: int) -> None:
        codes = [self.run(self.queue.append(m.worker, [item]))[0].code for _ in range(1 + retries)]
        done = AppendCode.ENDED if item.end else AppendCode.OK
        repeated = AppendCode.ENDED if item.end else AppendCode.DUP
        assert codes == [done, repeated][: 1 + retries]
        m.made.append(item)
        m.incarnation = self.incarnation

    @precondition(lambda self: any(m.made for m in self.requests))
    @rule(data=st.data())
    def a_former_append_comes_again(self, data: st.DataObject) -> None:
        m, item = data.draw(st.sampled_from([(m, item) for m in self.requests for item in m.made]))
        (answer,) = self.run(self.queue.append("w1", [item]))
        if m.status is RequestStatus.ENDED:
            assert answer.code is AppendCode.ENDED
        else:
            owned = m.claim is not None and m.claim.ck == item.ck
            assert answer.code is (AppendCode.DUP if owned else AppendCode.FENCED)
            m.incarnation = self.incarnation if owned else m.incarnation

    @precondition(some(RequestStatus.RUNNING))
    @rule(data=st.data(), retries=st.integers(0, 1))
    def end(self, data: st.DataObject, retries: int) -> None:
        m = self.pick(data, RequestStatus.RUNNING)
        self.commit(m, m.next_append(1, "", end=True), retries)
        self.fair.append(m.item, 1)
        self.over(m)

    def over(self, m: Tracked) -> None:
        if m.claim:
            m.dead.append(m.claim)
            self.fair.drop_hold(m.item)
        elif m.status is RequestStatus.QUEUED:
            self.fair.leave(m.item)
        m.status, m.worker, m.claim = RequestStatus.ENDED, "", None
        m.o += 1
        self.events += 1

    @precondition(lambda self: any(m.dead for m in self.requests))
    @rule(data=st.data(), ending=st.booleans())
    def a_former_owner_appends(self, data: st.DataObject, ending: bool) -> None:
        stale = [(m, claim) for m in self.requests for claim in m.dead]
        m, claim = data.draw(st.sampled_from(stale))
        entries = [end_entry(m.o + 1, len(m.ids) + 1)] if ending else [text(m.o + 1, "!", 0, 1)]
        event = usage_event(m.tenant, m.id) if ending else None
        item = append_to(claim, ids=(9,), n0=len(m.ids), o0=m.o, entries=entries, end=event)
        (answer,) = self.run(self.queue.append("w1", [item]))
        assert answer.code is (AppendCode.ENDED if m.status is RequestStatus.ENDED else AppendCode.FENCED)

    @precondition(some(RequestStatus.RUNNING))
    @rule(
        data=st.data(),
        why=st.sampled_from(("lost", "drain", "preempt", "park", "error")),
        retries=st.integers(0, 1),
    )
    def release(self, data: st.DataObject, why: ReleaseWhy, retries: int) -> None:
        m = self.pick(data, RequestStatus.RUNNING)
        assert m.claim is not None
        for _ in range(1 + retries):
            assert self.run(self.queue.unclaim(m.worker, m.tenant, m.id, m.claim.ck, why))
        parks = why == "park" and m.asked_to_park
        m.item.preempts += why == "preempt"
        self.back(m, int(why in ("lost", "error")), parks, warm=why in ("preempt", "park") and not parks)

    def back(self, m: Tracked, crowd: int = 0, parks: bool = False, warm: bool = False) -> None:
        """From its worker to its old place in line, or parked."""
        if warm:
            saved = (m.item.prompt + m.item.n) * 1000 // INFO["prefill_tokens_per_second"]
            most = 300 if m.item.class_ is PriorityClass.INTERACTIVE else 2_000
            m.item.warm_until = self.pool.clock.ms + min(saved, most)
        m.item.warm = m.worker if warm else ""
        m.renew_epoch(self.incarnation)
        m.lose_owner(crowd)
        self.fair.drop_hold(m.item)
        m.status = RequestStatus.PARKED if parks else RequestStatus.QUEUED
        m.o += 1
        if not parks:
            self.fair.enter(m.item)

    @precondition(some(RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED))
    @rule(data=st.data(), unpark=st.booleans())
    def park_or_unpark(self, data: st.DataObject, unpark: bool) -> None:
        m = self.pick(data, RequestStatus.QUEUED, RequestStatus.RUNNING, RequestStatus.PARKED)
        both = (RequestStatus.QUEUED, RequestStatus.PARKED)
        before, after = both[::-1] if unpark else both
        call = self.queue.unpark if unpark else self.queue.park
        assert self.run(call(m.tenant, m.id)) is m.status
        if m.status is RequestStatus.RUNNING:
            m.asked_to_park = not unpark
            m.item.control = m.item.control & ~Control.PARK if unpark else m.item.control | Control.PARK
        elif m.status is before:
            m.status = after
            m.o += 1
            (self.fair.enter if unpark else self.fair.leave)(m.item)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), how=st.sampled_from(("cancel", "finish", "look", "look", "look")))
    def cancel_or_finish(self, data: st.DataObject, how: str) -> None:
        m = self.pick(data, *RequestStatus)
        if how == "cancel":
            assert self.run(self.queue.control(m.tenant, m.id, Control.CANCEL)) is m.status
            m.cancelled = m.cancelled or m.status is not RequestStatus.ENDED
            m.item.control |= Control.CANCEL
            m.expire_now()
        elif how == "finish" and m.status is not RequestStatus.ENDED:
            self.finish(m)

    def finish(self, m: Tracked) -> None:
        ours = m.status is not RequestStatus.RUNNING
        end, event = end_entry(m.o + 1, len(m.ids)), usage_event(m.tenant, m.id)
        for _ in range(2):
            assert bool(self.run(self.queue.finish(m.tenant, m.id, m.o, [end], event))) is ours
        if ours:
            self.over(m)

    @precondition(some(RequestStatus.RUNNING))
    @rule(data=st.data())
    def an_engine_dies(self, data: st.DataObject) -> None:
        name = self.pick(data, RequestStatus.RUNNING).worker
        held = [m for m in self.requests if m.worker == name and m.status is RequestStatus.RUNNING]
        assert self.run(self.queue.deregister(name, "lost")) == len(held)
        del self.leases[name]
        for m, crowd in [(m, crowd_at(name, held)) for m in held]:
            self.back(m, crowd)

    @rule(repeats=st.integers(1, 2))
    def reap(self, repeats: int) -> None:
        dead = [name for name, lease in self.leases.items() if lease <= self.pool.clock.ms]
        reaped = self.run(self.queue.reap())
        held = [m for m in self.requests if m.worker in dead and m.status is RequestStatus.RUNNING]
        assert reaped.requeued == len(held)
        for name in dead:  # in the order in which they went, each with its claims as the set has them
            del self.leases[name]
        for m, crowd in [(m, crowd_at(m.worker, held)) for m in held]:
            self.back(m, crowd)
        if repeats > 1:
            reaped = self.run(self.queue.reap())
            assert reaped.requeued == 0
        waits = (RequestStatus.QUEUED, RequestStatus.PARKED)
        due = {m.id for m in self.requests if m.item.doomed and m.status in waits}
        assert {expired.id for expired in reaped.expired} == due

    @invariant()
    def the_pool_is_what_the_model_says(self) -> None:
        found = self.run(pool_state(self.pool, TENANTS, WORKERS, [(m.tenant, m.id) for m in self.requests]))
        expected = self.expected()
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert found[key] == value, key

    def expected(self) -> dict[str, Any]:
        """The pool's state, recounted from the requests and by the model of turns."""
        found: dict[str, Any] = {"sys": []}
        running = [m for m in self.requests if m.status is RequestStatus.RUNNING]
        for class_ in PriorityClass:
            line = [m for m in self.requests if m.item.class_ is class_ and m.status is RequestStatus.QUEUED]
            eligible, blocked = self.fair.eligible(class_), self.fair.blocked[class_]
            assert {m.tenant for m in line} == eligible.keys() | blocked
            found[f"age:{class_}"] = [f"{m.tenant}:{m.id}" for m in line]
            found[f"act:{class_}"], found[f"blocked:{class_}"] = eligible, blocked
            held = sum(m.item.held for m in running if m.item.class_ is class_)
            found["sys"] += [self.fair.served[class_], held]
        for name in TENANTS:
            tenant, mine = self.fair.tenant(name), [m for m in running if m.tenant == name]
            held = sum(m.item.held for m in mine)
            found[f"run:{name}"] = {m.id for m in mine}
            found[f"ten:{name}"] = [tenant.counter, tenant.credit, held]
        for worker in WORKERS:
            found |= held_at(worker, running)
        found["parked"] = {f"{m.tenant}:{m.id}" for m in self.requests if m.status is RequestStatus.PARKED}
        found["ended"] = self.events
        for m in self.requests:
            at = f"{m.tenant}:{m.id}"
            found[f"req:{at}"] = [m.status.value, str(m.o), str(m.item.n), m.worker, str(m.epoch)]
            found[f"log:{at}"] = (list(range(1, m.o + 1)), m.text)
            found[f"tok:{at}"] = b"" if m.status is RequestStatus.ENDED else tokens(*m.ids)
        return found
