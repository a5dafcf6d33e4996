"""Claims that wait for a policy take room, obey orders and hold up nothing, whatever happens meanwhile."""

from typing import Any

import msgspec
import pytest

from engine.queue.types import Claim
from engine.request import Control, input_decoder, input_encoder
from engine.safety.documents import PolicyDocument, PolicyPattern, policy_hash
from engine.safety.policy import compiled
from engine.scheduling.capacity import Capacity
from engine.worker.core import WorkerCore
from engine.worker.policy_cache import PolicyCache
from engine.worker.worker_calls import WorkerCalls
from tests.engine.builders import FINGERPRINT, START_MS
from tests.engine.loads import claim, end_of, gone, sampled
from tests.engine.workers import LIMITS, open_answer

OTHER = "0" * 64
DOCUMENT = PolicyDocument(patterns=(PolicyPattern("employee_id", "EMP-[0-9]{6}", "redact"),))
HASH = policy_hash(DOCUMENT)
DEADLINE_MS = START_MS + 600_000


class WaitingWorker:
    """A worker's core that knows no policy but the built-in ones, until it is told."""

    def __init__(self, slots: int = 20) -> None:
        self.policies = PolicyCache()
        capacity = Capacity(slots=slots, kv_tokens=100_000, step_tokens=256)
        self.load = WorkerCore(
            "default", FINGERPRINT, capacity, lambda c: open_answer(c, self.policies), LIMITS, 256
        )

    def claim(self, *claims: Claim) -> WorkerCalls:
        """Take these."""
        return self.load.claimed(claims, START_MS)

    def loaded(self, problem: str = "", now_ms: int = START_MS) -> WorkerCalls:
        """It is there now, or cannot be had."""
        if not problem:
            self.policies.keep(HASH, compiled(DOCUMENT))
        return self.load.policy_loaded(HASH, problem, now_ms)


def under(id: str, hash: str = HASH, **asked: Any) -> Claim:
    """A claim of a request under that policy."""
    found = claim(id, **asked)
    request = msgspec.structs.replace(input_decoder.decode(found.input), policy=hash)
    return msgspec.structs.replace(found, input=input_encoder.encode(request))


def started(work: WorkerCalls) -> list[str]:
    """What goes to the engine."""
    return [each.id for each in work.submit]


def test_a_policy_is_loaded_once_for_all_that_wait_for_it():
    """Each policy for its own; what needs none begins at once."""
    worker = WaitingWorker()
    work = worker.claim(under("a"), under("b"), claim("c"), under("d", OTHER))
    assert (work.load, started(work)) == ([HASH, OTHER], ["ck-c"])
    assert worker.claim(under("e")).load == []
    assert sorted(started(worker.loaded())) == ["ck-a", "ck-b", "ck-e"]
    assert worker.load.held == {("t1", id) for id in "abcde"}
    assert worker.load.stepped([sampled("a", "hello")], START_MS).abort == []


def test_what_waits_takes_room():
    """A worker offers no slot twice."""
    worker = WaitingWorker(slots=4)
    before = worker.load.offer(0, START_MS)
    worker.claim(under("a"), under("b"))
    after = worker.load.offer(0, START_MS)
    assert (before.slots, after.slots, len(worker.load)) == (4, 2, 2)
    assert after.kv_tokens < before.kv_tokens


def test_a_policy_that_cannot_be_had_ends_its_claims_alone():
    """With the reason; the next claim under it asks again."""
    worker = WaitingWorker()
    claims = [under("a"), under("b")]
    worker.claim(*claims, claim("c"), under("d", OTHER))
    work = worker.loaded("it is not in the pool")
    assert sorted(work.unreadable, key=lambda each: each[0].id) == [
        (each, "it is not in the pool") for each in claims
    ]
    assert worker.load.held == {("t1", "c"), ("t1", "d")}
    assert worker.claim(under("e")).load == [HASH]


def test_a_policy_that_had_no_room_is_loaded_again():
    """It was dropped before those that wait for it were opened."""
    worker = WaitingWorker()
    worker.claim(under("a"))
    assert worker.load.policy_loaded(HASH, "", START_MS).load == [HASH]
    assert started(worker.loaded()) == ["ck-a"]


@pytest.mark.parametrize("order", [Control.CANCEL, Control.PARK, Control.CANCEL | Control.PREEMPT])
def test_an_order_is_obeyed_once_it_is_opened(order: Control):
    """It is never begun."""
    worker = WaitingWorker()
    worker.claim(under("a"))
    for flag in order:
        worker.load.ordered("t1", "a", flag)
    work = worker.loaded()
    assert (work.submit, work.abort) == ([], [])
    if Control.CANCEL in order:
        assert end_of(worker.load) == ("cancelled", "")
    else:
        assert [why for *_, why in worker.load.departures().release] == ["park"]


def test_a_deadline_that_passed_meanwhile_ends_it():
    """As one that is claimed too late."""
    worker = WaitingWorker()
    worker.claim(under("a"))
    assert worker.loaded(now_ms=DEADLINE_MS).submit == []
    assert end_of(worker.load) == ("deadline", "")


def test_a_worker_that_leaves_gives_back_what_waits():
    """And wants nothing of a policy that comes then."""
    worker = WaitingWorker()
    worker.claim(under("a"))
    assert worker.load.leave("drain").release == [("t1", "a", "ck-a", "drain")]
    assert gone(worker.load)
    assert worker.loaded() == WorkerCalls()


def test_what_others_have_by_now_is_forgotten():
    """The lease was lost, or another worker claimed it."""
    for forget in (lambda load: load.drop_all(), lambda load: load.reconcile(set(), set())):
        worker = WaitingWorker()
        worker.claim(under("a"))
        assert forget(worker.load) == WorkerCalls()
        assert gone(worker.load)
        assert worker.loaded() == WorkerCalls()


def test_what_is_claimed_again_goes_by_its_newest_claim():
    """The first one's token is fenced."""
    worker = WaitingWorker()
    worker.claim(under("a"))
    worker.claim(msgspec.structs.replace(under("a"), ck="again"))
    assert started(worker.loaded()) == ["again"]
