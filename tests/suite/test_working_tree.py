"""What scripts learn from git."""

import subprocess
from pathlib import Path

import pytest

from scripts.working_tree import GitError, commit, files, git


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


def test_what_git_does_not_know_is_said(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree without a commit has none; where git is missing, so is what it would say."""
    assert commit(tree) == ""
    with pytest.raises(GitError, match=r"git log: .*no.* commits"):
        git(tree, "log")
    git(tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x", "--allow-empty")
    assert commit(tree) == git(tree, "log", "--format=%H").strip() != ""
    monkeypatch.setattr(subprocess, "run", no_git)
    assert commit(tree) == ""


def no_git(*_: object, **__: object) -> None:
    raise FileNotFoundError(2, "No such file or directory")
