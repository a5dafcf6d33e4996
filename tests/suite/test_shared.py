"""What the workers of a run share is made once."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import living, shared


def test_whoever_comes_first_makes_it(tmp_path: Path) -> None:
    """The others wait, and find it whole."""
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "whole").touch()

    def wanted(_: int) -> bool:
        return (shared._once(tmp_path / "x", make) / "whole").exists()

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(wanted, range(8))) == [True] * 8
    assert made == [tmp_path / "x"]


def test_what_was_left_half_made_is_made_again(tmp_path: Path) -> None:
    """A worker that failed at it leaves no half for the others."""

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        shared._once(tmp_path / "x", fail)
    assert list(shared._once(tmp_path / "x", lambda _: None).iterdir()) == [tmp_path / "x" / shared.MADE]


def test_a_worker_has_the_folders_of_its_run(pytestconfig: pytest.Config) -> None:
    """And a name for its own database."""
    assert all(folder.is_dir() for folder in pytestconfig.stash[shared.FOLDERS])
    assert shared.worker_name(pytestconfig).startswith("gw" if shared.is_worker(pytestconfig) else "alone")


@pytest.mark.postgres
def test_no_other_user_of_the_machine_reaches_the_runs_postgres(postgres_folder: Path) -> None:
    """It asks for no password, and its superuser runs programs as whoever runs it."""
    assert (postgres_folder / "data").stat().st_uid == postgres_folder.stat().st_uid
    assert postgres_folder.stat().st_mode & 0o077 == 0


def test_only_roots_run_lets_others_through_its_folders(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Postgres is another user, who has to pass."""
    for user, passing in ((0, 0o711), (1000, 0o700)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        assert shared.mode_of_folders() == passing
    assert all(each.stat().st_mode & 0o066 == 0 for each in shared.own_folders(pytestconfig))


def run(*folders: Path, **more: Any) -> Any:
    """A run with these folders."""
    stash = pytest.Stash()
    stash[shared.FOLDERS] = list(folders)
    return SimpleNamespace(stash=stash, option=SimpleNamespace(numprocesses=2), **more)


def test_what_is_shared_ends_with_the_run_and_not_with_a_worker(tmp_path: Path) -> None:
    """The others go on."""
    (folder := tmp_path / "run").mkdir()
    shared.pytest_unconfigure(run(folder, workerinput={}))
    assert folder.exists()
    shared.pytest_unconfigure(run(folder))
    assert not folder.exists()


def test_who_has_workers_runs_no_tests() -> None:
    """It makes no folders of its own."""
    alone = run()
    alone.option.numprocesses = 0
    runs = [shared.runs_tests(each) for each in (run(), run(workerinput={}), alone)]
    assert runs == [False, True, True]


def test_the_runs_postgres_is_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts it may end before who uses it; what that worker starts next is its own again."""
    marks = list[str]()

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setenv(living.MARK, "run.gw0")
    monkeypatch.setattr(shared.postgres, "start", lambda _: marks.append(os.environ[living.MARK]))  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(shared.postgres, "execute", nothing)
    monkeypatch.setattr(shared, "migrate", nothing)
    shared._start_postgres(tmp_path / "run" / "postgres")
    assert (marks, os.environ[living.MARK]) == (["run.all"], "run.gw0")
    with pytest.raises(ValueError, match="no room"), living.marked_as("x"):
        raise ValueError("no room")
    assert os.environ[living.MARK] == "run.gw0"


@pytest.mark.parametrize(("tests", "is_whole"), [(shared.MANY, False), (shared.MANY + 1, True)])
def test_a_whole_collection_leaves_everything_compiled(
    tests: int, is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a few files does not: the next whole run would not wait for who compiles first."""
    monkeypatch.setattr(shared, "COMPILED", tmp_path / "cache" / "compiled")
    session: Any = SimpleNamespace(config=run(workerinput={}), items=[None] * tests)
    collects = shared.pytest_collection(session)
    next(collects)
    with pytest.raises(StopIteration):
        collects.send(None)
    assert shared.COMPILED.exists() is is_whole
