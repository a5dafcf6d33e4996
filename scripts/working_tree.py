"""What git says of a working tree."""

import subprocess
from pathlib import Path

NEW = ("ls-files", "--others", "--exclude-standard", "-z")


class GitError(Exception):
    """What git said instead of an answer."""


def git(root: Path, *arguments: str) -> str:
    """What it prints. Raises GitError."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    except OSError as error:
        raise GitError(f"git does not start: {error.strerror}") from error
    if done.returncode:
        raise GitError(f"git {' '.join(arguments)}: {done.stderr.strip() or 'nothing found'}")
    return done.stdout


def files(root: Path) -> list[str]:
    """What is there, in order: what is not yet committed too, nothing that git ignores. Raises GitError."""
    names = {name for name in git(root, *NEW, "--cached").split("\0") if name}
    return sorted(name for name in names if (root / name).is_file())


def changed(root: Path, base: str) -> list[str]:
    """What differs from the commit at which this branch left `base`: committed, not yet, new or gone.
    Raises GitError."""
    left = git(root, "merge-base", base, "HEAD").strip()
    differs = git(root, "diff", "--name-only", "-z", left)
    return [name for name in (differs + git(root, *NEW)).split("\0") if name]


def commit(root: Path) -> str:
    """The one that is checked out; empty: there is none."""
    try:
        return git(root, "rev-parse", "HEAD").strip()
    except GitError:
        return ""
