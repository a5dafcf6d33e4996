"""scripts/stall.py: a pause takes the whole tree, and lets nobody go on whom the test itself has stopped."""

import subprocess
import sys
from itertools import islice
from types import SimpleNamespace

import psutil
import pytest

from scripts import stall
from tests.support.patience import watch_until

PARENT = "sleep 100 & echo; wait"
# The child tells how long the longest of its own beats took.
CHILD = """
import time
last, longest, until = time.monotonic(), 0.0, time.monotonic() + 1.2
while last < until:
    time.sleep(0.01)
    now = time.monotonic()
    last, longest = now, max(longest, now - last)
print(longest, flush=True)
"""
RUN = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {CHILD!r}]).returncode or 7)"


def test_whom_the_test_stopped_stays_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent stands during the pause, and goes on after it."""
    with subprocess.Popen(["sh", "-c", PARENT], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        parent = psutil.Process(process.pid)
        (child,) = watch_until(parent.children)
        child.suspend()
        watch_until(lambda: child.status() == psutil.STATUS_STOPPED)
        seen = list[bool]()

        def stand(_: float) -> None:
            seen.append(watch_until(lambda: parent.status() == psutil.STATUS_STOPPED))

        monkeypatch.setattr(stall, "time", SimpleNamespace(sleep=stand))
        stall._pause(process.pid, 1.0)  # pyright: ignore[reportPrivateUsage]
        watch_until(lambda: parent.status() != psutil.STATUS_STOPPED)
        assert child.status() == psutil.STATUS_STOPPED
        assert seen == [True]
        child.kill()
        process.kill()


def test_the_same_seed_pauses_at_the_same_moments():
    """And another one elsewhere."""
    assert list(islice(stall.pauses(1, 1.5), 9)) == list(islice(stall.pauses(1, 1.5), 9))
    assert list(islice(stall.pauses(1, 1.5), 9)) != list(islice(stall.pauses(2, 1.5), 9))


def test_a_childs_child_stands_too(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """And the command's exit code is the run's."""
    monkeypatch.setattr(stall, "GAP_SECONDS", (0.1, 0.1))
    assert stall.main(["--lead", "0.4", "--seconds", "0.6", "--seed", "1", sys.executable, "-c", RUN]) == 7
    said = capfd.readouterr()
    assert float(said.out) >= 0.6
    assert "pauses of 0.6 s, seed 1" in said.err
