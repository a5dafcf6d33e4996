"""Reads a file that somebody names, no further than it may be long."""

import os
import stat
from pathlib import Path


class UnfitFileError(OSError):
    """The file is not where it has to be, or is no file."""


def read_bounded(path: str | Path, bytes_max: int) -> bytes:
    """Its bytes, one more than `bytes_max` where it is longer. A pipe is waited for: who types a command may
    have made one. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(bytes_max + 1)


def read_beside(folder: str | Path, name: str, bytes_max: int) -> bytes:
    """The same of a file that another file names: a plain one in that one's folder, by no link out of it.
    Raises OSError; nothing is waited for."""
    inside, path = os.path.realpath(folder), os.path.realpath(os.path.join(folder, name), strict=True)
    if not Path(path).is_relative_to(inside):
        raise UnfitFileError(0, "it is a link out of the document's own folder")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError(0, "it is no plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
