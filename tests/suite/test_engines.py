"""Starts of vLLM are counted by the run, and too many fail it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.worker.startup_phases import StartupPhases
from tests.support import engines
from tests.support.engines import STARTS, started, verdict


def test_a_start_is_what_a_worker_says_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line is the product's own."""
    StartupPhases().log("w1", "smollm2", 1, 1)
    said = capsys.readouterr()
    log = tmp_path / "worker-0.log"
    log.write_text(said.out + said.err)
    assert started([log, log]) == 2


def test_one_too_many_fails_the_short_form() -> None:
    """The long one has more of them."""
    assert not verdict(4, is_long=False)
    assert "share an engine" in verdict(5, is_long=False)
    assert not verdict(5, is_long=True)


def run(starts: int, **more: Any) -> Any:
    """A run that knows of so many."""
    config: Any = SimpleNamespace(stash=pytest.Stash(), **more)
    engines.pytest_configure(config)
    config.stash[STARTS] += starts
    return config


@pytest.mark.parametrize(
    ("starts", "was", "ends"),
    [
        (4, pytest.ExitCode.OK, pytest.ExitCode.OK),
        (5, pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED),
        (5, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED),
    ],
)
def test_one_too_many_fails_the_run(
    starts: int, was: pytest.ExitCode, ends: pytest.ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what ended otherwise stays so."""
    monkeypatch.setattr(engines, "IS_LONG", False)
    session: Any = SimpleNamespace(config=run(starts), exitstatus=was)
    engines.pytest_sessionfinish(session)
    assert session.exitstatus == ends


def test_the_starts_of_all_add_up(tmp_path: Path) -> None:
    """Of each who counts in a worker, and of all workers, who judge nothing."""
    (log := tmp_path / "log").write_text(f"{engines.SAYS}\n{engines.SAYS}\n")
    worker, whole = run(0, workerinput={}, workeroutput={}), run(1)
    for _ in range(3):
        engines.count(worker, [log])
    session: Any = SimpleNamespace(config=worker, exitstatus=pytest.ExitCode.OK)
    engines.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.OK
    for output in (worker.workeroutput, {}):
        engines.pytest_testnodedown(SimpleNamespace(config=whole, workeroutput=output))
    assert whole.stash[STARTS] == 7
