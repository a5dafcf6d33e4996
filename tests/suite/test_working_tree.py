"""What scripts learn from git."""

import subprocess
from pathlib import Path

import pytest

from scripts.working_tree import GitError, files, git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """With nothing in it."""
    git(tmp_path, "init", "-q")
    return tmp_path


def test_files_are_those_that_are_there_and_not_ignored(tree: Path) -> None:
    """Committed or not, by any name."""
    (tree / "a folder").mkdir()
    for name in ("a folder/ü.py", "new", "gone", "ignored"):
        (tree / name).touch()
    (tree / ".gitignore").write_text("ignored\n")
    git(tree, "add", "gone", "a folder")
    (tree / "gone").unlink()
    assert files(tree) == [".gitignore", "a folder/ü.py", "new"]


def test_what_git_does_not_know_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its words; where git is missing, that."""
    with pytest.raises(GitError, match=r"git log: .*no.* commits"):
        git(tree, "log")
    monkeypatch.setattr(subprocess, "run", no_git)
    with pytest.raises(GitError, match="git does not start"):
        files(tree)


def no_git(*_: object, **__: object) -> None:
    raise FileNotFoundError(2, "No such file or directory")
