"""A pytest plugin: a failed test says for how long its process did not run.

A thread beats every 50 ms; one that comes half a second late was a pause of the machine or of the process.
With PARLEY_TEST_KEEP=FOLDER the logs of a failed test's processes are copied there before its home is
removed.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

BEAT_SECONDS = 0.05
LIVED_SECONDS_MAX = 0.1  # a later beat was a pause
PAUSE_SECONDS_MIN = 0.5
PAUSED = "paused_seconds"
KEEP = "PARLEY_TEST_KEEP"
LOG_BYTES_MAX = 4 << 20

_red = pytest.StashKey[bool]()


@dataclass
class Heart:
    """What a process lived so far, and when it did not: `pauses` are when one ended, and its seconds."""

    lived: float = 0.0
    pauses: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    at_each_beat: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def beat_for_ever(
        self, clock: Callable[[], float] = monotonic, rest: Callable[[float], None] = sleep
    ) -> None:
        """Of each beat no more than a little was not a pause."""
        last = clock()
        while True:
            rest(BEAT_SECONDS)
            now = clock()
            self.lived += min(now - last, LIVED_SECONDS_MAX)
            if now - last > PAUSE_SECONDS_MIN:
                self.pauses.append((now, now - last))
            last = now
            for look in self.at_each_beat:
                look()

    def paused_since(self, began: float) -> float:
        """Seconds for which the process did not run since then (by the same clock)."""
        return sum(seconds for ended, seconds in self.pauses if ended > began)


_heart = Heart()


def lived_seconds() -> float:
    """What this process lived so far."""
    return _heart.lived


def at_each_beat(look: Callable[[], None]) -> None:
    """Called in a thread of its own."""
    _heart.at_each_beat.append(look)


def paused_since(began: float) -> float:
    """Seconds for which this process did not run since then (by time.monotonic)."""
    return _heart.paused_since(began)


def pytest_configure(config: pytest.Config) -> None:
    """Start the heart, once a process."""
    if not any(thread.name == "pauses" for thread in threading.enumerate()):
        threading.Thread(target=_heart.beat_for_ever, name="pauses", daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside the error, what the machine did meanwhile."""
    report = yield
    if report.failed:
        item.stash[_red] = True
        seconds = paused_since(monotonic() - call.duration)
        report.user_properties.append((PAUSED, round(seconds, 1)))
        if seconds:
            report.sections.append(("pauses", f"the process did not run for {seconds:.1f} s meanwhile"))
    return report


def keep_logs(node: pytest.Item, home: Path) -> None:
    """The logs in a failed test's home, where somebody wants them."""
    if (folder := os.environ.get(KEEP)) is None or not node.stash.get(_red, False):
        return
    kept = Path(folder) / re.sub(r"[^\w.-]+", "_", node.nodeid)[-150:]
    for log in home.rglob("*.log"):
        if log.stat().st_size <= LOG_BYTES_MAX:
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, kept / "_".join(log.relative_to(home).parts))
