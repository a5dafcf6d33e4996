"""What git says of a working tree."""

import subprocess
from pathlib import Path

LISTED = ("ls-files", "--others", "--cached", "--exclude-standard", "-z")


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
    names = {name for name in git(root, *LISTED).split("\0") if name}
    return sorted(name for name in names if (root / name).is_file())
