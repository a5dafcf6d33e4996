"""The next step of each pool: tables of cases, and that any fleet gets where it should be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fleet.next_steps import NextStep, StepKind, is_passing, next_steps, retry_ms
from engine.fleet.observed import ChildNow, FleetNow, PoolNow
from tests.engine.fleet.world import Machine, Target, reported, target

NOW_MS = 1_000_000
CHILD = ChildNow(1, 2, True)
ENDED = ChildNow(1, 1, False, 1, NOW_MS, "no model")
START, RESIZE, SWITCH, STOP, WAIT, KEEP = StepKind
NO_ROOM = "this machine has room for 2 more workers; pool eu-1 wants 5: resize it to at most 4"
LABEL = "node n does not have the label zone=b"
CASES = [
    ("a new pool", target("p", 2), PoolNow(), 8, NextStep("p", START, 2, versions={"1": 2}, paid=2)),
    ("it has just started", target("p", 2), PoolNow(child=CHILD), 8,
     NextStep("p", WAIT, 2, why="its supervisor is starting")),
    ("all is well", target("p", 2), PoolNow((reported(2, 2, 2),), CHILD), 8, NextStep("p", KEEP, 2, "s1")),
    ("workers load", target("p", 2), PoolNow((reported(2, 2, 1),), CHILD), 8,
     NextStep("p", KEEP, 2, "s1", "1 of 2 workers are ready")),
    ("more workers", target("p", 4), PoolNow((reported(2, 2, 2),), CHILD), 8, NextStep("p", RESIZE, 4, "s1")),
    ("fewer", target("p", 1), PoolNow((reported(2, 2, 2),), CHILD), 8, NextStep("p", RESIZE, 1, "s1")),
    ("the rest drains", target("p", 1), PoolNow((reported(1, 2, 1),), CHILD), 8,
     NextStep("p", KEEP, 1, "s1", "1 of its workers drain")),
    ("too many for the machine", target("eu-1", 5), PoolNow((reported(2, 2, 2),), CHILD), 4,
     NextStep("eu-1", RESIZE, 4, "s1", NO_ROOM)),
    ("no room at all", target("p", 1), PoolNow(), 0,
     NextStep("p", WAIT, why="this machine has no room for more workers; pool p wants 1: "
              "resize or delete another pool")),
    ("another's supervisor", target("p", 3), PoolNow((reported(2, 2, 2, pid=9),)), 8,
     NextStep("p", RESIZE, 3, "s9")),
    ("workers elsewhere count", target("p", 3), PoolNow((reported(2, 2, 2, 7, "m"),)), 8,
     NextStep("p", START, 1, versions={"1": 1}, paid=1)),
    ("an older release", target("p", 3), PoolNow((reported(None, 2, 2),), CHILD), 8,
     NextStep("p", WAIT, why="supervisor s1 is of an older release: start it again")),
    ("a label that we lack", target("p", 3, zone="b"), PoolNow(), 8, NextStep("p", WAIT, why=LABEL)),
    ("what runs is not drained for it", target("p", 3, zone="b"), PoolNow((reported(2, 2, 2),), CHILD), 8,
     NextStep("p", KEEP, 2, "s1", LABEL)),
    ("no user in Redis", target("p", 1), PoolNow(lacks="make it"), 8, NextStep("p", WAIT, why="make it")),
    ("it ended once", target("p", 1), PoolNow(child=ENDED), 8,
     NextStep("p", START, 1, versions={"1": 1}, paid=1)),
    ("it ends again and again", target("p", 1), PoolNow(child=replace(ENDED, failures=3)), 8,
     NextStep("p", WAIT, why="its supervisor ended and is started again in 2 s: no model")),
    ("drains with requests", target("p", 2, True), PoolNow((reported(2, 2, 2),), CHILD, 1), 8,
     NextStep("p", KEEP, 2, "s1")),
    ("drained", target("p", 2, True), PoolNow((reported(2, 2, 2),), CHILD), 8,
     NextStep("p", RESIZE, 0, "s1")),
    ("empty", target("p", 2, True), PoolNow((reported(0, 0),), CHILD), 8, NextStep("p", STOP)),
    ("empty, but another's", target("p", 0), PoolNow((reported(0, 0, 0, 9),)), 8,
     NextStep("p", KEEP, 0, "s9")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "pool", "room", "step"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_next_step(wanted: Target, pool: PoolNow, room: int, step: NextStep):
    """Each state of a pool has one next step, with the reason where it is not as it should be."""
    now = FleetNow("n", room, {"zone": "a"}, {wanted.pool: pool})
    assert next_steps([wanted], now, NOW_MS) == [step]


@pytest.mark.parametrize(
    ("pool", "steps"),
    [
        (PoolNow((reported(2, 2),), CHILD), [NextStep("p", RESIZE, 0, "s1", "the pool is deleted")]),
        (
            PoolNow((reported(0, 1),), CHILD),
            [NextStep("p", WAIT, why="the pool is deleted: its workers drain")],
        ),
        (PoolNow((reported(0, 0),), CHILD), [NextStep("p", STOP, why="the pool is deleted")]),
        (PoolNow((), CHILD), [NextStep("p", STOP, why="the pool is deleted")]),
        (PoolNow((reported(2, 2, 2, pid=9),)), []),
        (PoolNow(child=replace(CHILD, alive=False)), []),
    ],
)
def test_a_pool_that_nobody_wants(pool: PoolNow, steps: list[NextStep]):
    """Ours drains, then ends; a supervisor that a person started for a pool of no row is left alone."""
    assert next_steps([], FleetNow("n", 8, {}, {"p": pool}), NOW_MS) == steps


def test_pools_share_what_room_there_is():
    """By name; what one drains is another's in the round after it is gone, and not before."""
    machine = Machine(4)
    wanted = [target("a", 1), target("b", 3), target("c", 2)]
    for _ in range(3):
        for step in next_steps(wanted, machine.seen(), NOW_MS):
            machine.obey(step)
        machine.passes()
    assert {pool: child[0] for pool, child in machine.children.items()} == {"a": 1, "b": 3}
    (short,) = [step for step in next_steps(wanted, machine.seen(), NOW_MS) if step.pool == "c"]
    assert "no room" in short.why
    wanted[1] = target("b", 1)
    for step in next_steps(wanted, machine.seen(), NOW_MS):
        machine.obey(step)
    assert (machine.children.get("c"), machine.children["b"]) == (None, [1, 3])
    machine.passes()
    (begun,) = [step for step in next_steps(wanted, machine.seen(), NOW_MS) if step.pool == "c"]
    assert begun == NextStep("c", START, 2, versions={"1": 2}, paid=2)


def test_a_supervisor_that_ends_is_left_alone_for_longer_each_time():
    """At most a minute."""
    assert [retry_ms(failures) for failures in (0, 1, 2, 3, 8, 9000)] == [0, 0, 1000, 2000, 60_000, 60_000]


@pytest.mark.parametrize(
    ("why", "passing"),
    [
        ("version 1: 1 worker, 3 requests pin it, at most until 2026-11-26T14:30:00+00:00", True),
        ("version 1: 1 worker, 1 request pins it; version 2: worker 2: it fails", False),
        ("version 2 comes after 1: 0 of its first 1 workers are ready", True),
        ("version 2 does not start, 1 goes on: it fails", False),
        ("", True),
    ],
)
def test_what_passes_by_itself_is_no_news(why: str, passing: bool):
    """Of a change of version too, unless something is wrong with it."""
    assert is_passing(why) == passing


NAMES = "abcd"
POOLS = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(0, 4), st.booleans()))
FAULTS = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=12)


@given(first=POOLS, then=POOLS, faults=FAULTS, room=st.integers(0, 10), twice=st.booleans())
def test_any_fleet_gets_where_it_should_be(
    first: dict[str, tuple[int, bool]],
    then: dict[str, tuple[int, bool]],
    faults: list[tuple[str, bool]],
    room: int,
    twice: bool,
):
    """From any desired state to any other, with supervisors killed and rounds made twice, as by
    two controllers: never more workers than room, nothing drained below what is desired, and at the end the
    desired state, or as much of it as has room, with the reason."""
    machine = Machine(room)
    for desired in (first, then):
        wanted = [target(name, *about) for name, about in desired.items()]
        for killed, passes in [*faults, *((" ", True) for _ in range(12))]:
            machine.children.pop(killed, None)
            now = machine.seen()
            steps = next_steps(wanted, now, NOW_MS)
            assert steps == next_steps(list(reversed(wanted)), now, NOW_MS)
            for step in steps:
                told = machine.children.get(step.pool, [0])[0]
                due = 0 if step.pool not in desired or desired[step.pool][1] else desired[step.pool][0]
                assert step.kind is not RESIZE or step.workers >= min(told, due)
            for step in steps * (2 if twice else 1):
                machine.obey(step)
            assert machine.used() <= room
            if passes:
                machine.passes()
        due = {name: count for name, (count, draining) in desired.items() if count and not draining}
        runs = {name: child[0] for name, child in machine.children.items()}
        why = {step.pool: step.why for step in next_steps(wanted, machine.seen(), NOW_MS)}
        assert sum(runs.values()) == min(room, sum(due.values()))
        assert all(runs.get(name, 0) == count or "room" in why[name] for name, count in due.items())
        assert set(runs) <= set(due)
