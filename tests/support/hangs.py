"""A pytest plugin: a test that hangs fails, with the stacks of all threads and tasks, and the run goes on.

pytest-timeout has the marker and the option, and lets another clock be its timer: this one counts lived time
(tests/support/pauses.py). An error is raised where the test stands, so that its fixtures end what they began.
A test that ends by none is killed with all that it started: xdist says which one it was, and replaces the
worker. So is one that holds the interpreter's lock, by the wall.
"""

import asyncio
import faulthandler
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

import pytest

from tests.support import leaks, living, pauses, shared
from tests.support.patience import LONG_TEST_SECONDS, TEST_SECONDS, UNWIND_SECONDS, wall_seconds_max

ERRORS_MAX = 3  # a task may take one for its own
KILLED = 70
TOLD = "hang"


@dataclass
class HangLimit:
    """What may not go on for ever."""

    item: pytest.Item
    phase: str
    seconds: float
    lived: float
    wall: float
    errors: int = 0

    @property
    def over(self) -> bool:
        """Whether it went on for too long, with what each error that it got was granted."""
        granted = self.seconds + self.errors * UNWIND_SECONDS
        lived, wall = pauses.lived_seconds() - self.lived, monotonic() - self.wall
        return lived > granted or wall > wall_seconds_max(granted)


class HangWatch:
    """The hooks of a process that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._due: HangLimit | None = None
        self._config = config
        self._told = _told_in(config)
        self._stderr = os.dup(2)  # pytest takes the other one away while tests run
        self._family = config.stash[leaks.LEAKS].family
        self._dump = self._told.with_suffix(".c").open("w")
        self._main = threading.main_thread().ident
        signal.signal(signal.SIGALRM, self._raise)
        pauses.at_each_beat(self._look)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """A fixture may start an engine."""
        self._begin(item, "setup", LONG_TEST_SECONDS)
        try:
            return (yield)
        finally:
            self._end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Or end one."""
        self._begin(item, "teardown", LONG_TEST_SECONDS)
        try:
            return (yield)
        finally:
            self._end()

    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool:
        """See pytest-timeout."""
        self._begin(item, "call", settings.timeout)
        return True

    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool:
        """See pytest-timeout."""
        self._end()
        return True

    def _begin(self, item: pytest.Item, phase: str, seconds: float) -> None:
        self._due = HangLimit(item, phase, seconds, pauses.lived_seconds(), monotonic())
        at_last = wall_seconds_max(seconds + ERRORS_MAX * UNWIND_SECONDS) + UNWIND_SECONDS
        faulthandler.dump_traceback_later(at_last, exit=True, file=self._dump)

    def _end(self) -> None:
        self._due = None
        faulthandler.cancel_dump_traceback_later()

    def _look(self) -> None:
        """In the thread that beats."""
        due = self._due
        if due is None or not due.over:
            return
        if due.errors < ERRORS_MAX:
            due.errors += 1
            signal.pthread_kill(self._main or 0, signal.SIGALRM)
        else:
            self._kill(due)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        due = self._due
        if due is None:
            return
        if due.errors <= 1:
            due.item.add_report_section(due.phase, TOLD, stacks())
        pytest.fail(f"hangs in its {due.phase}: not over after {due.seconds:.0f} s lived ({due.item.nodeid})")

    def _kill(self, due: HangLimit) -> None:
        said = f"{due.item.nodeid} hangs in its {due.phase} and ends by no error: killed\n{stacks()}"
        self._told.write_text(said)
        os.write(self._stderr, said.encode())
        living.kill(self._family.look())
        if not shared.is_worker(self._config):
            shared.remove_folders(self._config)
        os._exit(KILLED)


def stacks() -> str:
    """Where all threads and all tasks stand."""
    told = io.StringIO()
    names = {each.ident: each.name for each in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident() or ident == threading.main_thread().ident:
            told.write(f"--- thread {names.get(ident, ident)}\n")
            traceback.print_stack(frame, file=told)
    with suppress(RuntimeError):  # the set of tasks changes while it is read
        for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]
            if not task.done():
                told.write(f"--- task {task.get_name()}\n{''.join(_awaited(task.get_coro()))}")
    return told.getvalue()


def _awaited(awaitable: Any) -> list[str]:
    """What a task waits for, from its own code to the innermost."""
    lines: list[str] = []
    while awaitable is not None:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        frame = frame or getattr(awaitable, "ag_frame", None)
        if frame is None:
            break
        lines += traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return lines


def _told_in(config: pytest.Config, worker: str | None = None) -> Path:
    """Where a process that is about to end says why, for the one that outlives it."""
    return config.stash[shared.FOLDERS][0] / f"hang-{worker or shared.worker_name(config)}.txt"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where tests run; all have the one limit unless their mark says another."""
    if config.option.timeout is None:
        config.option.timeout = TEST_SECONDS
    if shared.runs_tests(config):
        config.pluginmanager.register(HangWatch(config), "hangs of this process")


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """What the killed worker had to say."""
    node: Any = getattr(report, "node", None)
    told = _told_in(sched.config, node.gateway.id)
    for file in (told, told.with_suffix(".c")):
        if file.exists() and (said := file.read_text()):
            report.sections.append((TOLD, said))
