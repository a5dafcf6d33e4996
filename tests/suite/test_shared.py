"""What the workers of a run share is made once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import shared


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
