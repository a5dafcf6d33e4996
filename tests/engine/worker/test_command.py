"""`parley worker` as it is called: what it is told, and how its process ends."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.injected import switches
from chaos.injected.scripted_by import engine_of
from core.configuration.settings import Settings
from engine import main


class _LeftError(Exception):
    """The process would have ended with this code."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(main, "_leave", codes.append)
    monkeypatch.setenv(switches.BACKEND, "scripted")
    return codes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (True, False)),
        (["--name", "w1"], (True, True)),
        (["--name", "w1", "--after-failed-starts"], (False, True)),
        (["--after-failed-starts", "--pool", "far"], (False, False)),
    ],
)
def test_what_a_workers_process_is_told(
    arguments: list[str], expected: tuple[bool, bool], left: list[int], monkeypatch: pytest.MonkeyPatch
):
    """It announces itself unless it is unsure; who names it supervises it. The exit code is its work's."""
    told: list[Any] = []

    async def work(settings: Settings, _: Any, name: str, other: Any, *more: bool) -> int:
        told.append((settings.pool, name, other is engine_of, more))
        return 7

    def run(settings: Settings, process: str, run_main: Callable[..., Awaitable[None]]) -> None:
        assert process == "worker"
        asyncio.run(run_main(settings, asyncio.Event()))  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(main, "_work", work)
    monkeypatch.setattr(main, "run", run)
    CliRunner().invoke(main.engine, ["worker", *arguments], catch_exceptions=False)
    ((pool, name, scripted, more),) = told
    assert (pool, scripted, more) == ("far" if "far" in arguments else "default", True, expected)
    assert name == "w1" if "w1" in arguments else str(os.getpid()) in name
    assert left == [7]


@pytest.mark.parametrize(("ended", "code"), [(SystemExit(3), 3), (SystemExit("a line"), 1), (None, 1)])
def test_a_worker_that_could_not_start_says_so(
    ended: SystemExit | None, code: int, left: list[int], monkeypatch: pytest.MonkeyPatch
):
    """By its exit code, and never by none."""

    def run(*_: Any) -> None:
        if ended is not None:
            raise ended

    monkeypatch.setattr(main, "run", run)
    CliRunner().invoke(main.engine, ["worker"])
    assert left == [code]


@pytest.mark.parametrize("given", [True, False])
def test_a_worker_may_be_given_its_model_in_a_file(
    given: bool, left: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Else it is told by its supervisor, or asks the database."""
    (tmp_path / "record").write_text("a record")
    monkeypatch.setenv(main.RECORD, "its supervisor's")
    monkeypatch.setattr(main, "run", lambda *_: None)
    arguments = ["--model-record", str(tmp_path / "record")] if given else []
    CliRunner().invoke(main.engine, ["worker", *arguments], catch_exceptions=False)
    assert os.environ[main.RECORD] == ("a record" if given else "its supervisor's")
    assert left == [1]


def test_only_a_real_engine_is_started_in_its_own_environment(
    left: list[int], monkeypatch: pytest.MonkeyPatch
):
    """What it reads when it is imported is set before that."""
    restarted: list[Settings] = []
    monkeypatch.setattr(main, "restarted_with", restarted.append)
    monkeypatch.setattr(main, "run", lambda *_: None)
    CliRunner().invoke(main.engine, ["worker"], catch_exceptions=False)
    assert restarted == []
    monkeypatch.setenv(switches.BACKEND, "")
    CliRunner().invoke(main.engine, ["worker"], catch_exceptions=False)
    assert len(restarted) == 1


def test_an_engines_processes_end_with_its_worker(monkeypatch: pytest.MonkeyPatch):
    """All that came of them too, and at once."""
    killed: list[str] = []

    class _Process:
        def children(self, recursive: bool = False) -> list[Any]:
            assert recursive
            return [SimpleNamespace(kill=lambda name=name: killed.append(name)) for name in ("core", "child")]

    def leave(code: int) -> None:
        raise _LeftError(code)

    monkeypatch.setattr(main.psutil, "Process", _Process)
    monkeypatch.setattr(main.os, "_exit", leave)
    with pytest.raises(_LeftError, match="5"):
        main._leave(5)
    assert killed == ["core", "child"]
