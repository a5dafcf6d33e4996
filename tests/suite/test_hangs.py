"""A test that hangs is named with where it stands, fails, and the run goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.suite.scratch import ran
from tests.support import hangs, living
from tests.support.groups import LONGEST, group_of
from tests.support.patience import TEST_SECONDS
from tests.support.scheduler import GroupScheduling

HANGING = """
import asyncio, threading, time
import pytest
from tests.support import hangs

hangs.LONG_TEST_SECONDS = 1.0
soon = pytest.mark.timeout(0.2)

async def innermost(): await asyncio.Event().wait()
async def outer(): await innermost()

@soon
async def test_waits():
    beside = asyncio.create_task(outer(), name="beside")
    await asyncio.Event().wait()

@soon
def test_spins():
    while True:
        pass

@soon
def test_hears_one_error():
    try:
        threading.Event().wait()
    except BaseException:
        threading.Event().wait()

def test_goes_on(): pass

@pytest.fixture
def never_begins(): threading.Event().wait()

@pytest.fixture
def never_ends():
    yield
    threading.Event().wait()

def test_of_none(never_begins): pass
def test_of_one(never_ends): pass
"""
DEAF = """
import subprocess, threading, time
import pytest

def test_before(): pass

@pytest.mark.timeout(0.2)
def test_deaf():
    child = subprocess.Popen(["sleep", "1005"])
    open("child", "w").write(str(child.pid))
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

def test_after(): pass
"""

MOVED = """
import time
import pytest
from tests.support.pauses import BEAT_SECONDS, lived_seconds

@pytest.fixture
def ends_after_a_few_beats():
    yield
    time.sleep(4 * BEAT_SECONDS)

def test_moves_the_clock(ends_after_a_few_beats, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: -1e9)
    lived = lived_seconds()
    time.sleep(4 * BEAT_SECONDS)
    assert lived_seconds() > lived
"""


def test_a_clock_that_a_test_moves_is_not_the_watchs(tmp_path: Path):
    """Its teardown begins while the clock is moved and goes on when it is right again: that is no hang."""
    code, said = ran(tmp_path, MOVED)
    assert code == pytest.ExitCode.OK, said


def test_a_test_that_hangs_is_named_and_the_rest_goes_on(tmp_path: Path):
    """On its loop, without one, and where it takes one error for its own; with what its tasks wait for."""
    code, said = ran(tmp_path, HANGING)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    for test in ("test_waits", "test_spins", "test_hears_one_error"):
        assert f"Failed: hangs in its call: not over after 0 s lived (test_it.py::{test})" in said
    assert "hangs in its setup: not over after 1 s lived (test_it.py::test_of_none)" in said
    assert "hangs in its teardown: not over after 1 s lived (test_it.py::test_of_one)" in said
    assert "--- task beside" in said
    assert "in innermost" in said
    assert "--- thread pauses" in said
    assert "3 failed, 2 passed" in said
    assert "3 errors" in said  # of those two, and of the task that stays


@pytest.mark.parametrize(
    ("lived", "wall", "errors", "over"),
    [
        (30.0, 90.0, 0, False),
        (30.1, 31.0, 0, True),
        (1.0, 90.1, 0, True),  # the machine does not stand for ever
        (50.0, 60.0, 1, False),  # it was told, and unwinds
        (50.1, 60.0, 1, True),
    ],
)
def test_what_is_too_long(lived: float, wall: float, errors: int, over: bool):
    """By lived time; by the wall three times as long."""
    item: Any = None
    with pytest.MonkeyPatch.context() as patch:  # over before this test's own end is watched
        patch.setattr(hangs.pauses, "lived_seconds", lambda: 7.0 + lived)
        patch.setattr(hangs, "monotonic", lambda: 5.0 + wall)
        is_over = hangs.HangLimit(item, "call", 30.0, 7.0, 5.0, errors).over
    assert is_over is over


def test_a_test_without_a_limit_of_its_own_has_the_one(pytestconfig: pytest.Config):
    """Else one that hangs would do so for ever."""
    assert pytestconfig.option.timeout == TEST_SECONDS


def test_a_test_that_ends_by_no_error_is_killed_with_what_it_began(tmp_path: Path):
    """Without workers so is the run. It says why, and leaves no process."""
    code, said = ran(tmp_path, DEAF)
    assert code == 70, said
    assert "test_it.py::test_deaf hangs in its call and ends by no error: killed" in said
    assert "in test_deaf" in said
    assert living.state_of(int((tmp_path / "child").read_text())) in ("", "Z")


@pytest.mark.long
def test_a_worker_that_was_killed_is_replaced(tmp_path: Path):
    """Its test is red with its stacks, the others run."""
    code, said = ran(tmp_path, DEAF, "-n1")
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert "crashed while running 'test_it.py::test_deaf'" in said
    assert "in test_deaf" in said
    assert "1 failed, 2 passed" in said


class Node:
    """A worker that remembers what it was told to run."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.told: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        """See xdist."""
        self.told += indices

    def shutdown(self) -> None:
        """See xdist."""
        self.shutting_down = True


def _nodes() -> Any:
    return Node("gw0"), Node("gw1")


def _scheduling(tests: list[str], nodes: list[Any]) -> GroupScheduling:
    options = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"] * len(nodes), option=options)
    scheduling = GroupScheduling(config, Producer("x", enabled=False))
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    return scheduling


def test_another_worker_goes_on_with_the_group_of_one_that_died():
    """The test during which it died is over; those after it run once, also where a single one is left."""
    tests = [f"tests/a.py::test_{n}" for n in range(3)]
    first, second = _nodes()
    scheduling = _scheduling(tests, [first])
    assert first.told == [0, 1, 2]
    scheduling.mark_test_complete(first, 0)
    assert scheduling.remove_node(first) == tests[1]
    scheduling.add_node(second)
    scheduling.add_node_collection(second, tests)
    scheduling.schedule()
    assert (second.told, second.shutting_down) == ([2], True)
    scheduling.mark_test_complete(second, 2)
    assert scheduling.tests_finished
    assert scheduling.remove_node(second) is None
    assert group_of(tests[0]) not in scheduling.workqueue


def test_the_longest_of_those_that_wait_comes_next():
    """As tests/support/groups.py lists them."""
    first, _ = _nodes()
    _scheduling([f"{file}::test" for file in ("tests/a.py", "tests/b.py", LONGEST[2])], [first])
    assert first.told[0] == 2


def test_a_worker_that_replaces_another_gets_groups_until_it_can_begin():
    """A worker runs a test once it knows of the next one."""
    tests = [
        "tests/a.py::test",
        "tests/b.py::test",
        "tests/c.py::test",
        "tests/d.py::test",
        "tests/e.py::test",
    ]
    first, second = _nodes()
    scheduling = _scheduling(tests, [first])
    assert len(first.told) == 3
    crashed = scheduling.remove_node(first)
    scheduling.add_node(second)
    scheduling.add_node_collection(second, tests)
    scheduling.schedule()
    assert len(second.told) == 3
    assert crashed not in [tests[n] for n in second.told]
