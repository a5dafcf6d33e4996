"""scripts/stall.py: a pause takes the whole tree, and lets nobody go on whom the test itself has stopped."""

import subprocess
from types import SimpleNamespace

import psutil
import pytest

from scripts import stall
from tests.support.patience import watch_until

PARENT = "sleep 100 & echo; wait"


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
