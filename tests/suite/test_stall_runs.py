"""A command under pauses: it and its children stand, and go on."""

import sys
from itertools import islice

import pytest

from scripts import stall

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
PARENT = (
    f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {CHILD!r}]).returncode or 7)"
)


def test_the_same_seed_pauses_at_the_same_moments():
    """And another one elsewhere."""
    assert list(islice(stall.pauses(1, 1.5), 9)) == list(islice(stall.pauses(1, 1.5), 9))
    assert list(islice(stall.pauses(1, 1.5), 9)) != list(islice(stall.pauses(2, 1.5), 9))


def test_a_childs_child_stands_too(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """And the command's exit code is the run's."""
    monkeypatch.setattr(stall, "GAP_SECONDS", (0.1, 0.1))
    assert stall.main(["--lead", "0.4", "--seconds", "0.6", "--seed", "1", sys.executable, "-c", PARENT]) == 7
    said = capfd.readouterr()
    assert float(said.out) >= 0.6
    assert "pauses of 0.6 s, seed 1" in said.err
