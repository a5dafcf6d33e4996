"""Which other Pythons the tests are tried under, and in what."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import pythons
from scripts.pythons import candidates, copied


def test_what_is_on_the_path_comes_before_what_pyenv_keeps() -> None:
    """The newest patch first, by number, its release before its candidates; 3.1 is not 3.13."""
    kept = [Path(f"/v/3.{name}") for name in ("13.9", "13.10rc1", "13.10", "13-dev", "13.2", "1", "130.0")]
    assert candidates("3.13", "/bin/python3.13", kept) == [
        "/bin/python3.13",
        "/v/3.13.10/bin/python",
        "/v/3.13.10rc1/bin/python",
        "/v/3.13.9/bin/python",
        "/v/3.13.2/bin/python",
    ]
    assert candidates("3.12", None, kept) == []


def test_one_that_does_not_start_is_not_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shim of pyenv for a version that is not chosen; another of the same version is taken."""
    own = "{}.{}".format(*sys.version_info[:2])
    (tmp_path / "bin").mkdir()
    shim = tmp_path / f"bin/python{own}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert pythons.present(own) is None
    python = tmp_path / f"versions/{own}.9/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert pythons.present(own) == str(python)
    assert pythons.present("3.99") is None


@pytest.mark.parametrize(
    ("given", "red", "code", "under"),
    [
        ([], "", 0, ["3.98", "3.99"]),
        ([], "3.98", 1, ["3.98", "3.99"]),
        (["--newest"], "3.98", 0, ["3.99"]),
        (["--newest", "--without-worker"], "3.99", 1, ["3.99"]),
    ],
)
def test_one_red_version_is_red(
    given: list[str], red: str, code: int, under: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are tried, or the newest of those that are present; never the one that runs this."""
    tried: list[str] = []
    own = "{}.{}".format(*sys.version_info[:2])
    monkeypatch.setattr(pythons, "OTHERS", ("3.97", own, "3.98", "3.99"))
    monkeypatch.setattr(pythons, "present", lambda version: "" if version == "3.97" else f"/{version}")  # pyright: ignore[reportUnknownLambdaType]

    def one(version: str, _: str, tests: list[str], without_worker: bool) -> bool:
        assert (tests, without_worker) == (["tests/core"], "--without-worker" in given)
        tried.append(version)
        return version != red

    monkeypatch.setattr(pythons, "tried", one)
    assert pythons.main([*given, "tests/core"]) == code
    assert tried == under


@pytest.mark.parametrize(
    ("fails", "passed", "without"),
    [
        ((), True, None),
        (("pytest",), False, None),
        (("whole",), True, "1"),
        (("whole", "pytest"), False, "1"),
        (("whole", "--without-torch"), False, "none ran"),
    ],
)
def test_what_needs_torch_is_left_out_where_there_is_none(
    fails: tuple[str, ...], passed: bool, without: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without an environment nothing is green."""
    seen: list[str | None] = ["none ran"]

    def run(command: list[str], env: Mapping[str, str] = {}, **_: object) -> SimpleNamespace:
        step = next((each for each in ("pytest", "--without-torch") if each in command), "whole")
        if step == "pytest":
            seen.append(env.get(pythons.WITHOUT_TORCH))
        return SimpleNamespace(returncode=int(step in fails))

    monkeypatch.delenv(pythons.WITHOUT_TORCH, raising=False)
    monkeypatch.setattr(pythons, "ROOT", tmp_path)
    monkeypatch.setattr(pythons, "copied", lambda _: None)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(pythons, "subprocess", SimpleNamespace(run=run))
    assert pythons.tried("3.99", "/python", []) is passed
    assert seen[-1] == without


@pytest.mark.parametrize("red", [False, True])
def test_who_needs_no_worker_installs_none(
    red: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what needs torch is left out."""
    made: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        made.append(command[1:])
        return SimpleNamespace(returncode=int(red))

    monkeypatch.setattr(pythons, "subprocess", SimpleNamespace(run=run))
    assert pythons.set_up("/python", tmp_path, without_worker=True) is (None if red else False)
    assert made == [["scripts/setup.py", "test"]]


def test_a_copy_follows_the_tree_and_keeps_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went from the tree goes from the copy; what is only installed stays."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    (root / "core").mkdir(parents=True)
    for name in ("core/new.py", "setup.cfg"):
        (root / name).touch()
    (copy / ".venv").mkdir(parents=True)
    (copy / "core").mkdir()
    (copy / "core/gone.py").touch()
    monkeypatch.setattr(pythons, "ROOT", root)
    monkeypatch.setattr(pythons, "files", lambda _: ["core/new.py", "setup.cfg"])
    copied(copy)
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*.*")) == [
        ".venv",
        "core/new.py",
        "setup.cfg",
    ]
