"""A pool changes its version with its workers ready all the while: cases, and any faults at any time."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fleet.next_steps import StepKind
from engine.fleet.observed import NextWorkerFit, PinnedRequests, VersionWorkers
from engine.fleet.version_counts import LINGER_MS, VersionCounts, VersionFacts, needed_ready, version_counts
from tests.engine.fleet.rolling import RollingPool

CHANCE = random.Random(1)
NOW_MS = 1_000_000_000
ROUNDS_MAX = 60


def facts(workers: int, surge: int = 0, **more: object) -> VersionFacts:
    """A pool in version 1 that is to have version 2."""
    of = {"1": VersionWorkers(workers, workers, workers)}
    base = VersionFacts("p", "tiny", "1", "2", workers, workers, surge, of, {"1": workers}, now_ms=NOW_MS)
    return replace(base, **more)


def rolled(pool: RollingPool) -> list[dict[str, int]]:
    """What its supervisor is told, one after the other, until it is as it should be."""
    told = [dict(pool.wanted)]
    for _ in range(ROUNDS_MAX):
        pool.round()
        if pool.wanted != told[-1]:
            told.append(dict(pool.wanted))
        if pool.settled:
            return told
        pool.passes(CHANCE)
    raise AssertionError(f"not settled: {told}")


@pytest.mark.parametrize(
    ("workers", "room", "told"),
    [
        (1, 2, [{"1": 1}, {"1": 1, "2": 1}, {"2": 1}]),
        (2, 3, [{"1": 2}, {"1": 2, "2": 1}, {"2": 2, "1": 1}, {"2": 2}]),
        (2, 2, [{"1": 2}, {"1": 1, "2": 1}, {"2": 2}]),
        (
            4,
            4,
            [{"1": 4}, {"1": 3, "2": 1}, {"1": 2, "2": 2}, {"2": 3, "1": 1}, {"2": 4}],
        ),
    ],
)
def test_workers_are_replaced_one_by_one(workers: int, room: int, told: list[dict[str, int]]):
    """One more where there is room, else one in the place of another; the rest follows the switch."""
    pool = RollingPool.serving(workers, room)
    pool.use("2")
    assert rolled(pool) == told
    assert pool.switches == ["2"]
    pool.use("1")
    rolled(pool)
    assert pool.switches == ["2", "1"]


def test_the_last_old_worker_stays_while_requests_pin_it():
    """How many there are, and until when, is said; it goes a moment after the last one."""
    pool = RollingPool.serving(2, 3)
    pool.use("2")
    pool.pins = {"1": 1_000}
    for _ in range(20):
        pool.round()
        pool.passes(CHANCE)
    assert pool.wanted == {"2": 2, "1": 1}
    assert pool.round().why.startswith(
        f"version 1: 1 worker, {pool.pins['1']} requests pin it, at most until "
    )
    pool.pins = {"1": 0}
    rolled(pool)


def test_one_place_waits_until_a_gap_is_accepted():
    """It says how long nobody would serve; accepted, the old version finishes what pins it first."""
    plan = version_counts(facts(1, start_seconds=42.4))
    assert (plan.counts, plan.switch) == ({"1": 1}, False)
    assert "nobody would serve for about 42 s" in plan.why
    assert "`parley models use tiny 2 --pool p --accept-gap`" in plan.why
    assert version_counts(facts(1, accept_gap=True)).switch
    after = facts(1, in_use="2", next="", pinned={"1": PinnedRequests(3, NOW_MS)})
    plan = version_counts(after)
    assert plan == VersionCounts(
        {"1": 1},
        why="version 1: 1 worker, 3 requests pin it, at most until 1970-01-12T13:46:40+00:00",
        awaits=True,
    )
    for none_since_ms, counts in ((NOW_MS, {"1": 1}), (NOW_MS - LINGER_MS, {"2": 1})):
        done = replace(after, pinned={"1": PinnedRequests(0, 0, none_since_ms)})
        assert version_counts(done).counts == counts


def test_a_version_that_does_not_fit_the_memory_is_not_started():
    """Beside the others it is not tried where it fits in the place of one; what fits nowhere waits."""
    beside = NextWorkerFit("5 GiB are free, it takes 7 GiB")
    assert version_counts(facts(2, 1, fit=beside)).counts == {"1": 1, "2": 1}
    alone = version_counts(facts(1, 1, fit=beside))
    assert (alone.counts, beside.beside in alone.why) == ({"1": 1}, True)
    plan = version_counts(facts(2, 0, fit=NextWorkerFit("", "8 GiB are too few")))
    assert (plan.counts, plan.why) == (
        {"1": 2},
        "version 2 does not fit, 1 goes on: 8 GiB are too few",
    )


def test_a_version_that_does_not_start_changes_nothing():
    """The old one serves, and the way back is said; taken, all is as before."""
    pool = RollingPool.serving(2, 3)
    pool.broken = {"2"}
    pool.use("2")
    for _ in range(20):
        pool.round()
        pool.passes(CHANCE)
        assert pool.ready("1") == 2
    step = pool.round()
    assert (pool.switches, step.kind) == ([], StepKind.KEEP)
    assert step.why == (
        "version 2 does not start, 1 goes on: it fails; `parley models use tiny 1 --pool p` undoes it"
    )
    pool.use("1")
    rolled(pool)
    assert pool.wanted == {"1": 2}


EVENTS = st.lists(
    st.sampled_from(["crash 0", "crash 1", "crash 2", "supervisor", "room", "use 1", "use 2", "use 3",
                     "break 2", "mend", "pins 1", "pins 2", "nothing", "slow"]), max_size=25,
)  # fmt: skip


@given(events=EVENTS, workers=st.integers(1, 5), spare=st.integers(0, 2), seed=st.integers(0, 999))
def test_no_fault_leaves_a_pool_without_workers(events: list[str], workers: int, spare: int, seed: int):
    """Whatever happens while versions change: an order takes away at most one ready worker of those that
    serve, and never the last of the version in use; there are no more workers than room; a version takes
    over once enough of its workers are ready; and at the end the pool is as it should be."""
    chance = random.Random(seed)
    pool = RollingPool.serving(workers, workers + spare)
    for event in [*events, "mend", *["nothing"] * ROUNDS_MAX]:
        what, _, name = event.partition(" ")
        if what == "crash":
            pool.crash(int(name))
        elif what == "supervisor":
            pool.supervisor_dies()
        elif what == "room":
            pool.room = max(workers, pool.room - 1)
        elif what == "use":
            pool.use(name)
        elif what == "break" and pool.target.version != name:
            pool.broken = {name}
        elif what == "mend":
            pool.broken, pool.room = set(), max(pool.room, 2)
        elif what == "pins":
            pool.pins[name] = 5
        serving, in_use, version = pool.serves(), pool.ready(pool.target.version), pool.target.version
        had, ready_next = len(pool.running), pool.ready(pool.target.next_version)
        step = pool.round()
        if step.kind is StepKind.SWITCH:
            assert ready_next >= (workers + 1) // 2
            assert pool.ready(version) == in_use
        else:
            assert pool.serves() >= min(serving, workers) - 1
            assert in_use == 0 or pool.ready(pool.target.version) >= 1
        assert len(pool.running) <= max(pool.room, had)
        pool.passes(chance, 0.3 if what == "slow" else 1.0)
    assert pool.settled, (pool.target, pool.wanted, pool.running, pool.pins)


def test_half_of_the_pool_is_enough_to_take_over():
    """Of one worker it is that one; of workers on other nodes it asks no more than may run here."""
    needed = [needed_ready(facts(workers)) for workers in (1, 2, 3, 4, 7)]
    assert needed == [1, 1, 2, 2, 4]
    assert needed_ready(facts(2, desired=8)) == 2
