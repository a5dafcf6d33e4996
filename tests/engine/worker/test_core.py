"""A worker's answers, event by event: what is to be done after each, and what is in hand."""

import msgspec
import pytest

from engine.backends.base import Finish, StepOutput
from engine.queue.types import AppendCode, Appended, ReleaseWhy
from engine.request import Control
from engine.worker.core import WorkerCore
from engine.worker.end_confirmation import ASK_AFTER_MS
from engine.worker.worker_calls import WorkerCalls
from tests.engine.builders import START_MS
from tests.engine.loads import NO_FLAGS, a_load, claim, end_of, flush, gone, holding, replies, sampled
from tests.engine.tokens import EOS, ids_of

DEADLINE_MS = START_MS + 600_000
SHAPE = '{"type":"json_object"}'


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (Control.MIGRATE, "pool"),
        (Control.DRAIN, "drain"),
        (Control.PREEMPT, "preempt"),
        (Control.PARK, "park"),
        (Control.MIGRATE | Control.DRAIN | Control.PREEMPT | Control.PARK, "pool"),
        (Control.PREEMPT | Control.PARK, "preempt"),
    ],
)
@pytest.mark.parametrize("told", ["by itself", AppendCode.OK, AppendCode.DUP, AppendCode.GAP, "as claimed"])
def test_an_order_is_obeyed_however_it_comes(told: str | AppendCode, order: Control, why: ReleaseWhy):
    """In a call of its own, with the reply to an append, or with the claim, which then never starts."""
    load = a_load()
    started = load.claimed([claim("a", control=order if told == "as claimed" else NO_FLAGS)], START_MS)
    if isinstance(told, AppendCode):
        load.stepped([sampled("a", "hello")], START_MS)
        assert flush(load, told, order).abort == ["ck-a"]
    elif told == "by itself":
        assert load.ordered("t1", "b", order) == WorkerCalls()
        assert load.ordered("t1", "a", order).abort == ["ck-a"]
    else:
        assert (started.submit, started.abort, started.extend) == ([], [], [])
    assert load.generating == set()
    flush(load)
    assert load.departures() == WorkerCalls(release=[("t1", "a", "ck-a", why)])
    assert gone(load)


@pytest.mark.parametrize("told", ["by itself", AppendCode.OK, AppendCode.DUP, AppendCode.GAP])
def test_a_cancel_comes_before_every_other_order_and_ends_once(told: str | AppendCode):
    """What was sampled is logged with the end; no later order takes it back to the line."""
    load, every = holding("a"), Control.CANCEL | Control.PREEMPT | Control.MIGRATE
    load.stepped([sampled("a", "hello")], START_MS)
    done = flush(load, told, every) if isinstance(told, AppendCode) else load.ordered("t1", "a", every)
    assert (done.abort, done.release) == (["ck-a"], [])
    assert end_of(load) == ("cancelled", "")
    assert load.ordered("t1", "a", Control.PREEMPT) == WorkerCalls()
    assert load.tick(DEADLINE_MS) == WorkerCalls()
    assert end_of(load) == ("cancelled", "")
    assert load.departures() == WorkerCalls()


@pytest.mark.parametrize(("late_ms", "started"), [(-1, True), (0, False)])
def test_a_claim_at_its_deadline_is_ended_and_not_begun(late_ms: int, started: bool):
    """As one that runs is, at the same millisecond, and taken from the engine."""
    load = a_load()
    work = load.claimed([claim("a")], DEADLINE_MS + late_ms)
    assert [each.id for each in work.submit] == ["ck-a"] * started
    assert len(work.extend) == 0
    running = holding("a")
    assert running.tick(DEADLINE_MS + late_ms).abort == ["ck-a"] * (not started)
    if not started:
        assert end_of(load) == end_of(running) == ("deadline", "")


def test_what_is_complete_as_claimed_is_ended_without_the_engine():
    """Another worker sampled its last token and died."""
    load = a_load()
    work = load.claimed([claim("a", tail="ab", visible=2, max_tokens=2)], START_MS)
    assert work == WorkerCalls(opened=work.opened)
    assert end_of(load) == ("length", "")


@pytest.mark.parametrize(("granted", "started"), [(2, False), (3, True)])
def test_what_is_used_up_as_claimed_waits_for_a_grant(granted: int, started: bool):
    """The engine gets it once there is a token that it may sample; more is asked for in both cases."""
    load = a_load()
    work = load.claimed([claim("a", tail="ab", visible=2, granted=granted)], START_MS)
    assert [each.id for each in work.submit] == ["ck-a"] * started
    assert [(ask.key, ask.tokens) for ask in work.extend] == [("ck-a", 50)]
    assert load.wants_allowance("ck-a")


def test_one_claim_that_cannot_be_read_holds_up_no_other():
    """It is ended as such, and is not in hand."""
    load = a_load()
    broken = msgspec.structs.replace(claim("b"), input=b"\xc1")
    work = load.claimed([broken, claim("a")], START_MS)
    assert [each for each, _ in work.unreadable] == [broken]
    assert [each.id for each in work.submit] == ["ck-a"]
    assert load.held == {("t1", "a")}


@pytest.mark.parametrize(
    ("output", "end", "aborted"),
    [
        (sampled("a", "xyz", Finish.STOP), ("stop", ""), False),
        (sampled("a", [*ids_of("xyz"), EOS], Finish.STOP), ("stop", ""), False),
        (sampled("a", "xyz", Finish.LENGTH), ("length", ""), False),
        (sampled("a", "x" * 50), ("length", ""), True),
        (sampled("a", "x" * 50, Finish.LENGTH), ("length", ""), False),
        (sampled("a", "xEND"), ("stop", ""), True),
        (sampled("a", "x", Finish.UNFIT), ("error", "bad_request"), False),
    ],
)
def test_how_an_answer_ends(output: StepOutput, end: tuple[str, str], aborted: bool):
    """By the engine's word, or by what was sampled: then the engine is told to stop."""
    load = holding("a", stop=("END",))
    assert load.stepped([sampled("b", "?"), output], START_MS) == WorkerCalls(abort=["ck-a"] * aborted)
    assert end_of(load) == end
    more = load.stepped([sampled("a", "more")], START_MS)
    assert (more, end_of(load)) == (WorkerCalls(), end)
    assert flush(load).settle[0].request == "a"
    assert (len(load), load.held) == (0, {("t1", "a")}), "its end is still to be asked after"


def test_what_the_engine_fails_at_goes_back_in_line_with_what_was_sampled():
    """Another attempt may do better."""
    load = holding("a")
    assert load.stepped([sampled("a", "hel", Finish.ERROR)], START_MS) == WorkerCalls()
    assert load.departures() == WorkerCalls(), "not before all of it is in the log"
    ((_, append),) = load.appends(START_MS)
    assert (len(append.tokens), append.end) == (12, None)
    flush(load)
    assert load.departures().release == [("t1", "a", "ck-a", "error")]
    assert gone(load)


@pytest.mark.parametrize(("shape", "code"), [(None, "internal"), (SHAPE, "bad_request")])
def test_what_the_engine_refuses_is_the_fault_of_its_shape_or_ours(shape: str | None, code: str):
    """No other engine would take it either, so it ends."""
    load = holding("a", response_format=shape)
    load.refused("ck-a")
    assert end_of(load) == ("error", code)


def test_a_lost_lease_leaves_nothing_in_hand():
    """All of it is, or will be, another worker's: nothing is appended, and no grant matters."""
    load = holding("b", "a", granted=10)
    assert load.wants_allowance("ck-a")
    assert load.drop_all() == WorkerCalls(abort=["ck-a", "ck-b"])
    assert gone(load)
    assert not load.wants_allowance("ck-a")
    assert load.ordered("t1", "a", Control.CANCEL) == WorkerCalls()
    assert load.stepped([sampled("a", "x")], START_MS) == WorkerCalls()


def test_everything_is_given_back_once_it_is_logged():
    """What has ended by then ends."""
    load = holding("a", "b", "c")
    load.stepped([sampled("a", "x"), sampled("c", "x", Finish.STOP)], START_MS)
    assert load.leave("drain") == WorkerCalls(abort=["ck-a", "ck-b"])
    assert load.departures().release == [("t1", "b", "ck-b", "drain")]
    settled = flush(load).settle
    assert [event.request for event in settled] == ["c"]
    assert load.departures().release == [("t1", "a", "ck-a", "drain")]
    assert len(load) == 0


def test_engine_queue_and_worker_are_brought_to_agree():
    """What the engine runs for nobody is aborted; what it lost is given back when it is missed twice in a
    row; what the queue gave to others is forgotten, but not an end that is on its way into the log."""
    load = holding("a", "b", "c")
    mine = {("t1", "a"), ("t1", "b"), ("t1", "c")}
    assert load.reconcile({"ck-a", "ck-c", "old", "dead"}, mine) == WorkerCalls(abort=["dead", "old"])
    assert load.reconcile({"ck-a", "ck-b", "ck-c"}, mine) == WorkerCalls()
    assert load.reconcile({"ck-a", "ck-c"}, mine) == WorkerCalls()
    assert load.generating == {"ck-a", "ck-b", "ck-c"}, "missed once, twice, but not in a row"
    assert load.reconcile({"ck-a", "ck-c"}, mine) == WorkerCalls()
    assert load.generating == {"ck-a", "ck-c"}
    assert load.departures().release == [("t1", "b", "ck-b", "error")]
    load.stepped([sampled("c", "x", Finish.STOP)], START_MS)
    load.appends(START_MS)
    assert load.reconcile({"ck-a"}, set()) == WorkerCalls(abort=["ck-a"])
    assert load.held == {("t1", "c")}
    assert [event.request for event in flush(load).settle] == ["c"]


@pytest.mark.parametrize("code", [AppendCode.FENCED, AppendCode.MISSING, AppendCode.ENDED])
def test_what_is_not_this_workers_any_more_is_forgotten(code: AppendCode):
    """Nothing is given back, settled or asked after: it is another's, or over."""
    load = holding("a", granted=10)
    load.stepped([sampled("a", "hello")], START_MS)
    assert flush(load, code) == WorkerCalls(abort=["ck-a"])
    assert gone(load)
    assert not load.wants_allowance("ck-a")


def test_a_log_that_lost_more_than_this_claim_wrote_is_given_back():
    """A later claim goes on from where it ends now."""
    load = holding("a")
    load.stepped([sampled("a", "hello")], START_MS)
    behind = [Appended(AppendCode.GAP, 0, 1, Control.CANCEL, 1000)]
    work = load.appended(load.appends(START_MS), behind, START_MS)
    assert work == WorkerCalls(release=[("t1", "a", "ck-a", "drain")], abort=["ck-a"])
    assert gone(load)


def test_a_log_that_takes_nothing_of_it_is_given_back_as_an_error():
    """The pool counts the attempt."""
    load = holding("a", "b")
    load.stepped([sampled("a", "x")], START_MS)
    ((answer, _),) = load.appends(START_MS)
    given = load.given_up(answer)
    assert given == WorkerCalls(release=[("t1", "a", "ck-a", "error")], abort=["ck-a"])
    assert load.held == {("t1", "b")}


def ended(id: str = "a") -> WorkerCore:
    """A worker whose one answer's end is in the log, as far as Redis says."""
    load = holding(id)
    load.stepped([sampled(id, "hello", Finish.STOP)], START_MS)
    assert [event.request for event in flush(load).settle] == [id]
    return load


def asked_after(load: WorkerCore, code: AppendCode, o: int, n: int = 5) -> WorkerCalls:
    """The first question whether the end is still there, and this reply."""
    assert load.appends(START_MS + ASK_AFTER_MS[0] - 1) == []
    sent = load.appends(START_MS + ASK_AFTER_MS[0])
    assert [append.end for _, append in sent] == [None]
    return load.appended(sent, [Appended(code, n, o, NO_FLAGS, 1000)], START_MS)


def test_an_end_that_redis_still_has_is_asked_after_once_more():
    """Then it is believed."""
    load = ended()
    assert asked_after(load, AppendCode.ENDED, 4) == WorkerCalls()
    assert load.held == {("t1", "a")}
    sent = load.appends(START_MS + ASK_AFTER_MS[1])
    assert load.appended(sent, replies(sent, AppendCode.ENDED, NO_FLAGS), START_MS) == WorkerCalls()
    assert gone(load)


def test_an_end_that_redis_lost_is_logged_and_settled_again():
    """It is in hand again, obeys no order, and is asked after anew."""
    load = ended()
    assert asked_after(load, AppendCode.GAP, 2, 0) == WorkerCalls()
    assert (len(load), load.held) == (1, {("t1", "a")})
    assert load.ordered("t1", "a", Control.CANCEL) == WorkerCalls()
    assert end_of(load) == ("stop", "")
    assert [event.request for event in flush(load).settle] == ["a"]
    assert len(load.appends(START_MS + ASK_AFTER_MS[0])) == 1


def test_an_end_whose_claim_redis_lost_too_is_given_back():
    """Its first entry came after where the log ends now."""
    load = ended()
    assert asked_after(load, AppendCode.GAP, 1, 0) == WorkerCalls(release=[("t1", "a", "ck-a", "drain")])
    assert gone(load)


@pytest.mark.parametrize("code", [AppendCode.FENCED, AppendCode.MISSING, AppendCode.OK, AppendCode.DUP])
def test_an_end_that_is_another_workers_is_asked_after_no_more(code: AppendCode):
    """Or nobody's."""
    load = ended()
    assert asked_after(load, code, 4) == WorkerCalls()
    assert gone(load)
