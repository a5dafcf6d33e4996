"""Whole runs, again and again or at once: each says what it took, and a red one is seen."""

import json
import sys
from pathlib import Path

import pytest

from scripts import whole_runs
from scripts.whole_runs import Memory, WholeRun, busy, one


@pytest.mark.parametrize(("asserted", "code", "verdict"), [("True", 0, "green"), ("False", 1, "RED")])
def test_a_run_says_what_it_took(
    tmp_path: Path, asserted: str, code: int, verdict: str, capfd: pytest.CaptureFixture[str]
):
    """And a red one shows what pytest printed."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "test_x.py").write_text(f"def test_x():\n    assert {asserted}\n\ndef test_y(): ...\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:valkey\n")
    run = one(tmp_path, 7, ["-n", "0"])
    assert (run.seed, run.code, run.tests) == (7, code, 2)
    assert run.wall_seconds > 0
    assert verdict in run.shown
    assert ("assert False" in capfd.readouterr().err) == bool(code)


def test_what_failed_is_named():
    """By test, and where pytest itself ended early by its code."""
    assert (
        WholeRun(7, 1, 6580, ["t.py::a"], 626.0, 1019.4).shown
        == "     7   6,580   10:26    1,019 s  RED   t.py::a"
    )
    assert WholeRun(7, 4, 0, [], 1.0, 0.0).shown.endswith("RED   exit code 4")


def test_runs_have_seeds_of_their_own_and_one_red_makes_the_whole_red(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """One after another in this tree."""
    seen: list[tuple[Path, int, list[str]]] = []

    def ran(place: Path, seed: int, options: list[str]) -> WholeRun:
        seen.append((place, seed, options))
        return WholeRun(seed, int(seed == 4), 9, [], 1.0, 1.0)

    monkeypatch.setattr(whole_runs, "one", ran)
    assert whole_runs.main(["--times", "2", "--seed", "2", "--json"]) == 0
    assert whole_runs.main(["--times", "2", "--seed", "3", "--", "-k", "x"]) == 1
    every_day = list(whole_runs.EVERY_DAY)
    assert [each[1:] for each in seen] == [(2, every_day), (3, every_day), (3, ["-k", "x"]), (4, ["-k", "x"])]
    printed = capsys.readouterr().out
    assert "1 of 2 green" in printed
    told = next(json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    assert [run["seed"] for run in told["runs"]] == [2, 3]


def test_memory_that_was_taken_is_remembered(monkeypatch: pytest.MonkeyPatch):
    """The most of it."""
    free = iter([9, 5, 7])
    monkeypatch.setattr(
        whole_runs.psutil, "virtual_memory", lambda: type("Free", (), {"available": next(free) * 2**20})
    )
    memory = Memory()
    memory.look()
    memory.look()
    assert memory.most_mib == 4


def test_busy_loops_end():
    """With what they stand beside: the run's own look at processes would name them."""
    with busy(1):
        pass
