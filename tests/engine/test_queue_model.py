"""Any sequence of queue operations, retried at will, against a small model in Python."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import hypothesis.strategies as st
import pytest
import redis.asyncio
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.settings import Settings
from engine.api import AppendCode, Claim, Control, Enqueued, Offer, PriorityClass, Status
from engine.queue_types import Append, ReleaseWhy
from tests.engine.builders import FINGERPRINT, Pool, append_to, end_entry, request, text, tokens, usage_event

T = TypeVar("T")
WORKERS = ("w1", "w2", "w3")
TENANTS = ("t1", "t2")
LEASE_MS = 3_000
DEATHS_MAX = 4


@dataclass
class Model:
    """What a request should be."""

    tenant: str
    id: str
    class_: PriorityClass
    arrival: int
    status: Status = Status.QUEUED
    o: int = 1
    ids: list[int] = field(default_factory=list[int])
    text: str = ""
    worker: str = ""
    cn: int = 0
    deaths: int = 0
    cancelled: bool = False
    asked_to_park: bool = False
    claim: Claim | None = None
    dead: list[Claim] = field(default_factory=list[Claim])

    @property
    def doomed(self) -> bool:
        return self.cancelled or self.deaths >= DEATHS_MAX

    def requeue(self, died: bool = False, status: Status = Status.QUEUED) -> None:
        """Its owner gave it up, or died."""
        assert self.claim is not None
        self.dead.append(self.claim)
        self.claim, self.worker, self.status, self.asked_to_park = None, "", status, False
        self.deaths += died
        self.o += 1


def some(*statuses: Status) -> Callable[[Any], bool]:
    """A precondition: a request is in one of these states."""
    return lambda machine: any(m.status in statuses for m in machine.requests)


class QueueMachine(RuleBasedStateMachine):
    """Drives a pool and its model side by side."""

    def __init__(self, redis_url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.redis = redis.asyncio.Redis.from_url(redis_url)
        self.run(self.redis.flushall())
        limits = Settings.model_validate({"home": Path("/nonexistent"), "no_worker_seconds_max": 1_000_000})
        self.pool = Pool(self.redis, limits)
        self.queue = self.pool.queue
        self.requests: list[Model] = []
        self.leases: dict[str, int] = {}
        self.events = 0

    def run(self, call: Awaitable[T]) -> T:
        """Await in this machine's own loop."""
        return self.runner.get_loop().run_until_complete(call)

    def teardown(self) -> None:
        self.run(self.redis.aclose())
        self.runner.close()

    def pick(self, data: st.DataObject, *statuses: Status) -> Model:
        """One of the requests in these states."""
        return data.draw(st.sampled_from([m for m in self.requests if m.status in statuses]))

    @initialize(classes=st.lists(st.sampled_from(PriorityClass), max_size=3))
    def start(self, classes: list[PriorityClass]) -> None:
        for worker in WORKERS[:2]:
            self.start_or_renew(worker)
        for class_ in classes:
            self.enqueue("t1", class_, 0)

    @rule(tenant=st.sampled_from(TENANTS), class_=st.sampled_from(PriorityClass), retries=st.integers(0, 1))
    def enqueue(self, tenant: str, class_: PriorityClass, retries: int) -> None:
        e = request(tenant=tenant, priority=class_, deadline_ms=self.pool.clock.ms + 10**9)
        replies = [self.run(self.queue.enqueue(e)) for _ in range(1 + retries)]
        assert [isinstance(r, Enqueued) and r.created for r in replies] == [True, False][: 1 + retries]
        self.requests.append(Model(tenant, e.id, class_, len(self.requests)))

    @rule(worker=st.sampled_from(WORKERS))
    def start_or_renew(self, worker: str) -> None:
        if worker in self.leases:
            assert self.run(self.queue.renew(worker, 0, {})).alive
        else:
            self.pool.calls.pop(worker, None)
            self.run(self.queue.register(worker, FINGERPRINT, {"kv_tokens": 1_000_000}))
        self.leases[worker] = self.pool.clock.ms + LEASE_MS

    @rule(ms=st.integers(1, 2_000))
    def time_passes(self, ms: int) -> None:
        self.pool.clock.advance(ms)

    @rule(worker=st.sampled_from(WORKERS), slots=st.integers(0, 5), retries=st.integers(0, 2))
    def claim(self, worker: str, slots: int, retries: int) -> None:
        call = self.pool.calls.get(worker, 0) + 1
        self.pool.calls[worker] = call
        offer = Offer(FINGERPRINT, slots, 1_000_000, 1_000_000)
        answers = [self.run(self.queue.claim(worker, call, offer)).claims for _ in range(1 + retries)]
        assert all(answer == answers[0] for answer in answers)
        expected = self.expected_picks(slots) if self.leases.get(worker, 0) > self.pool.clock.ms else []
        assert [claim.id for claim in answers[0]] == [m.id for m in expected]
        for claim, m in zip(answers[0], expected, strict=True):
            m.o += m.cn == 0
            m.cn += 1
            m.status, m.worker, m.claim = Status.RUNNING, worker, claim
            assert (claim.cn, claim.epoch, claim.n, claim.o) == (m.cn, 1, len(m.ids), m.o)
            assert (claim.tokens, claim.visible, claim.deaths) == (tokens(*m.ids), len(m.text), m.deaths)

    def expected_picks(self, slots: int) -> list[Model]:
        """Classes in order, arrival order within."""
        order = list(PriorityClass)
        waiting = [m for m in self.requests if m.status is Status.QUEUED and not m.doomed]
        return sorted(waiting, key=lambda m: (order.index(m.class_), m.arrival))[:slots]

    @precondition(some(Status.RUNNING))
    @rule(data=st.data(), count=st.integers(0, 3), x=st.text("aé🙂", max_size=4), retries=st.integers(0, 1))
    def append(self, data: st.DataObject, count: int, x: str, retries: int) -> None:
        m = self.pick(data, Status.RUNNING)
        count = count or int(not x)
        self.commit(m, self.next_append(m, count, x), retries)
        if count:
            m.deaths = 0
        m.ids += range(len(m.ids), len(m.ids) + count)
        m.text += x
        m.o += bool(x)

    def next_append(self, m: Model, count: int, x: str, end: bool = False) -> Append:
        assert m.claim is not None
        n, shown = len(m.ids) + count, len(m.text) + len(x)
        entries = [text(m.o + 1, x, len(m.text), n)] if x else []
        if end:
            entries.append(end_entry(m.o + 1 + len(entries), n))
        return append_to(
            m.claim,
            ids=tuple(range(len(m.ids), n)),
            n0=len(m.ids),
            o0=m.o,
            entries=entries,
            raw=shown,
            visible=shown,
            end=usage_event(m.tenant, m.id) if end else None,
        )

    def commit(self, m: Model, item: Append, retries: int) -> None:
        codes = [self.run(self.queue.append(m.worker, [item]))[0].code for _ in range(1 + retries)]
        done = AppendCode.ENDED if item.end else AppendCode.OK
        repeated = AppendCode.ENDED if item.end else AppendCode.DUP
        assert codes == [done, repeated][: 1 + retries]

    @precondition(some(Status.RUNNING))
    @rule(data=st.data(), retries=st.integers(0, 1))
    def end(self, data: st.DataObject, retries: int) -> None:
        m = self.pick(data, Status.RUNNING)
        self.commit(m, self.next_append(m, 1, "", end=True), retries)
        m.ids.append(len(m.ids))
        self.over(m)

    def over(self, m: Model) -> None:
        if m.claim:
            m.dead.append(m.claim)
        m.status, m.worker, m.claim = Status.ENDED, "", None
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
        assert answer.code is (AppendCode.ENDED if m.status is Status.ENDED else AppendCode.FENCED)

    @precondition(some(Status.RUNNING))
    @rule(
        data=st.data(),
        why=st.sampled_from(("lost", "drain", "preempt", "park", "error")),
        retries=st.integers(0, 1),
    )
    def release(self, data: st.DataObject, why: ReleaseWhy, retries: int) -> None:
        m = self.pick(data, Status.RUNNING)
        assert m.claim is not None
        for _ in range(1 + retries):
            assert self.run(self.queue.release(m.worker, m.tenant, m.id, m.claim.ck, why))
        parks = why == "park" and m.asked_to_park
        m.requeue(why in ("lost", "error"), Status.PARKED if parks else Status.QUEUED)

    @precondition(some(Status.QUEUED, Status.RUNNING, Status.PARKED))
    @rule(data=st.data(), unpark=st.booleans())
    def park_or_unpark(self, data: st.DataObject, unpark: bool) -> None:
        m = self.pick(data, Status.QUEUED, Status.RUNNING, Status.PARKED)
        before, after = (Status.PARKED, Status.QUEUED) if unpark else (Status.QUEUED, Status.PARKED)
        call = self.queue.unpark if unpark else self.queue.park
        assert self.run(call(m.tenant, m.id)) is m.status
        if m.status is Status.RUNNING:
            m.asked_to_park = not unpark
        elif m.status is before:
            m.status = after
            m.o += 1

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), how=st.sampled_from(("cancel", "finish", "look", "look", "look")))
    def cancel_or_finish(self, data: st.DataObject, how: str) -> None:
        m = self.pick(data, *Status)
        if how == "cancel":
            assert self.run(self.queue.control(m.tenant, m.id, Control.CANCEL)) is m.status
            m.cancelled = m.cancelled or m.status is not Status.ENDED
        elif how == "finish" and m.status is not Status.ENDED:
            self.finish(m)

    def finish(self, m: Model) -> None:
        ours = m.status is not Status.RUNNING
        end, event = end_entry(m.o + 1, len(m.ids)), usage_event(m.tenant, m.id)
        for _ in range(2):
            assert self.run(self.queue.finish(m.tenant, m.id, m.o, [end], event)) is ours
        if ours:
            self.over(m)

    @rule(repeats=st.integers(1, 2))
    def reap(self, repeats: int) -> None:
        dead = [name for name, lease in self.leases.items() if lease <= self.pool.clock.ms]
        reaped = self.run(self.queue.reap())
        held = [m for m in self.requests if m.worker in dead and m.status is Status.RUNNING]
        assert reaped.requeued == len(held)
        for m in held:
            m.requeue(died=True)
        for name in dead:
            del self.leases[name]
        if repeats > 1:
            again = self.run(self.queue.reap())
            assert again.requeued == 0
            reaped = again
        due = {m.id for m in self.requests if m.doomed and m.status in (Status.QUEUED, Status.PARKED)}
        assert {expired.id for expired in reaped.expired} == due

    @invariant()
    def the_pool_is_what_the_model_says(self) -> None:
        for key, found, expected in zip(*self.run(self.everything()), self.expected(), strict=True):
            assert found == expected, key

    async def everything(self) -> tuple[list[str], list[Any]]:
        """All sets that counts derive from, and each request's record, log and tokens."""
        pipe, key, names = self.redis.pipeline(transaction=False), self.pool.key, list[str]()
        for class_ in PriorityClass:
            pipe.zrange(key(f"age:{class_}"), 0, -1)
            pipe.zrange(key(f"act:{class_}"), 0, -1)
            names += [f"age:{class_}", f"act:{class_}"]
        for tenant in TENANTS:
            pipe.smembers(key(f"run:{tenant}"))
            names.append(f"run:{tenant}")
        for worker in WORKERS:
            pipe.smembers(key(f"claims:{worker}"))
            names.append(f"claims:{worker}")
        pipe.zrange(key("parked"), 0, -1)
        pipe.xlen(key("ended"))
        names += ["parked", "ended"]
        for m in self.requests:
            pipe.hmget(key(f"req:{m.tenant}:{m.id}"), "status", "o", "n", "worker", "epoch")
            pipe.xrange(key(f"log:{m.tenant}:{m.id}"))
            pipe.get(key(f"tok:{m.tenant}:{m.id}"))
            names += [f"req:{m.id}", f"log:{m.id}", f"tok:{m.id}"]
        found = [plain(value) for value in await pipe.execute()]
        found[names.index("parked")] = set(found[names.index("parked")])  # its order is that of parking
        return names, found

    def expected(self) -> list[Any]:
        """The same from the model."""
        found: list[Any] = []
        for class_ in PriorityClass:
            line = [m for m in self.requests if m.class_ is class_ and m.status is Status.QUEUED]
            found += [[f"{m.tenant}:{m.id}" for m in line], sorted({m.tenant for m in line})]
        running = [m for m in self.requests if m.status is Status.RUNNING]
        found += [{m.id for m in running if m.tenant == tenant} for tenant in TENANTS]
        found += [{f"{m.tenant}:{m.id}" for m in running if m.worker == worker} for worker in WORKERS]
        parked = [m for m in self.requests if m.status is Status.PARKED]
        found += [{f"{m.tenant}:{m.id}" for m in parked}, self.events]
        for m in self.requests:
            found.append([m.status.value, str(m.o), str(len(m.ids)), m.worker, "1"])
            found.append((list(range(1, m.o + 1)), m.text))
            found.append(tokens(*m.ids) if m.ids and m.status is not Status.ENDED else None)
        return found


def plain(value: Any) -> Any:
    """A reply as the model writes it; a log as its offsets and its text."""
    match value:
        case [(bytes(), dict()), *_]:
            text_of = b"".join(fields.get(b"x", b"") for _, fields in value)
            return [int(o.split(b"-")[0]) for o, _ in value], text_of.decode()
        case list():
            return [part.decode() for part in value]
        case set():
            return {part.decode() for part in value}
        case _:
            return value


@pytest.mark.timeout(400)  # a failure is shrunk before it is shown
def test_any_history_agrees_with_the_model(redis_url: str):
    """Each request in one place, its log dense, its tokens exact, its owner the only writer, one end each."""
    run_state_machine_as_test(
        cast(type[RuleBasedStateMachine], partial(QueueMachine, redis_url)),
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
