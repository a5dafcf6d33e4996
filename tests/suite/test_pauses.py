"""A failure says for how long its process stood; what a failed test's processes said is kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import pauses


def _node(red: bool) -> Any:
    stash = pytest.Stash()
    stash[pauses._red] = red
    return SimpleNamespace(nodeid="tests/a.py::test_x[1/2]", stash=stash)


def test_only_pauses_since_then_count() -> None:
    """Those before a test began are not its own."""
    heart = pauses.Heart(pauses=[(10.0, 1.5), (20.0, 2.5), (30.0, 0.5)])
    assert [heart.paused_since(began) for began in (5.0, 15.0, 30.0)] == [4.5, 3.0, 0.0]


def test_a_late_beat_is_little_of_a_life() -> None:
    """What is beyond a beat was a pause, and is kept as one where it was long.

    A heart of its own: what watches for hangs goes by the process's, also while this test ends."""
    clock = iter([0.0, 0.05, 0.35, 10.35])
    rests: list[float] = []
    heart = pauses.Heart()
    heart.at_each_beat.append(lambda: seen.append(heart.lived))
    seen: list[float] = []

    def now() -> float:
        if (at := next(clock, None)) is None:
            raise RuntimeError("the clock has ended")
        return at

    with pytest.raises(RuntimeError, match="the clock has ended"):
        heart.beat_for_ever(now, rests.append)
    assert heart.lived == pytest.approx(0.25)
    assert heart.pauses == [(10.35, 10.0)]
    assert seen == pytest.approx([0.05, 0.15, 0.25])
    assert rests == [pauses.BEAT_SECONDS] * 4


def test_logs_of_a_failed_test_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody wants them; not those of a green one, nor what is endless."""
    home, kept = tmp_path / "home", tmp_path / "kept"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "worker.log").write_text("said")
    (home / "other.txt").write_text("x")
    (home / "endless.log").write_bytes(b"x" * 11)
    monkeypatch.setattr(pauses, "LOG_BYTES_MAX", 10)
    monkeypatch.delenv(pauses.KEEP, raising=False)
    pauses.keep_logs(_node(red=True), home)
    monkeypatch.setenv(pauses.KEEP, str(kept))
    pauses.keep_logs(_node(red=False), home)
    assert not kept.exists()
    pauses.keep_logs(_node(red=True), home)
    assert [(each.name, each.read_text()) for each in kept.rglob("*.*") if each.is_file()] == [
        ("logs_worker.log", "said")
    ]


def test_a_failure_says_for_how_long_its_process_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its report, and its logs are wanted."""
    monkeypatch.setattr(pauses, "paused_since", lambda _: 1.26)  # pyright: ignore[reportUnknownLambdaType]
    node, call = _node(red=False), SimpleNamespace(duration=2.0)
    report: Any = SimpleNamespace(failed=True, user_properties=[], sections=[])
    told = pauses.pytest_runtest_makereport(node, call)  # pyright: ignore[reportArgumentType]
    next(told)
    with pytest.raises(StopIteration):
        told.send(report)
    assert node.stash[pauses._red]
    assert report.user_properties == [(pauses.PAUSED, 1.3)]
    assert "did not run for 1.3 s" in report.sections[0][1]
