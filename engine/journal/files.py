"""A journal's files: `POOL~OWNER~NUMBER.ends` in the folder `ends` of PARLEY_HOME.

Each is written by one process, which holds its lock, and then closed. Any process that takes the lock of a
closed file may handle it, also a dead process' file. Blocks: call it in a thread.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from engine.queue.journaled_ends import MAGIC

FOLDER = "ends"
SUFFIX = ".ends"
SEGMENT_BYTES = 1 << 20
SEGMENT_SECONDS = 5.0
FILE_BYTES_MAX = 256 << 20


class JournalFullError(Exception):
    """The unacknowledged ends of this process take as many bytes as they may."""


def pattern(pool: str) -> str:
    """Names of a pool's files."""
    return f"{_part(pool)}~*{SUFFIX}"


def pool_of(path: Path) -> str:
    """The pool that a file's name says."""
    return unquote(path.name.partition("~")[0])


class JournalSegments:
    """The files of one owner. Every write is on the disk when it returns, or the file is as before."""

    def __init__(self, folder: Path, pool: str, owner: str, bytes_max: int) -> None:
        self._folder = folder
        self._name = f"{_part(pool)}~{_part(owner)}"
        self._bytes_max = bytes_max
        self._closed: dict[Path, int] = {}
        self._number = 0
        self._open: int | None = None
        self._path = folder
        self._size = 0
        self._opened_at = 0.0

    def write(self, frames: Sequence[bytes]) -> None:
        """Append and sync. Raises JournalFullError, OSError."""
        data = b"".join(frames)
        self._require_room(len(data) + len(MAGIC))
        if self._open is None:
            self._begin()
        assert self._open is not None
        try:
            _write_all(self._open, data)
            os.fdatasync(self._open)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._open, self._size)
            raise
        self._size += len(data)
        if self._size >= SEGMENT_BYTES:
            self.close()

    def tick(self) -> None:
        """Close a file that has been open for a while, so that it can be dropped."""
        if self._open is not None and time.monotonic() - self._opened_at >= SEGMENT_SECONDS:
            self.close()

    def close(self) -> None:
        """Close the open file; nothing more is written to it."""
        if self._open is not None:
            os.close(self._open)
            self._closed[self._path] = self._size
            self._open = None

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            self._number += 1
            path = self._folder / f"{self._name}~{self._number}{SUFFIX}"
            try:
                opened = os.open(
                    path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
            except FileExistsError:  # of a process that had our name
                continue
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write_all(opened, MAGIC)
                _sync_folder(self._folder)
            except OSError as error:
                os.close(opened)
                with suppress(OSError):
                    path.unlink()
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    continue
                raise
            self._open, self._path, self._size = opened, path, len(MAGIC)
            self._opened_at = time.monotonic()
            return

    def _require_room(self, more: int) -> None:
        if self._bytes + more > self._bytes_max:
            self._closed = {path: size for path, size in self._closed.items() if path.exists()}
            if self._bytes + more > self._bytes_max:
                raise JournalFullError

    @property
    def _bytes(self) -> int:
        return sum(self._closed.values()) + (self._size if self._open is not None else 0)


@dataclass(frozen=True)
class ClosedSegment:
    """A file that nobody writes any more, locked by this process."""

    path: Path

    def read(self) -> bytes:
        """The file's content. Raises OSError."""
        return self.path.read_bytes()

    def drop(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)

    def set_aside(self) -> None:
        """Rename a file that cannot be read, and keep it for people."""
        self.path.rename(self.path.with_suffix(".unreadable"))


def closed_paths(folder: Path, pool: str) -> list[Path]:
    """Files of a pool, oldest first; those that are still written too."""
    found: list[tuple[int, Path]] = []
    for path in folder.glob(pattern(pool)):
        with suppress(OSError):
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= FILE_BYTES_MAX:
                found.append((facts.st_mtime_ns, path))
    return [path for _, path in sorted(found)]


@contextmanager
def taken(path: Path) -> Generator[ClosedSegment | None]:
    """The file, locked while the block runs; None where it is gone, or another process holds its lock."""
    try:
        opened = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = ClosedSegment(path) if path.exists() else None
    except OSError:
        found = None
    try:
        yield found
    finally:
        os.close(opened)


def _part(name: str) -> str:
    """A name as part of a file name, with `~` escaped: else one pool's files could be taken for another's."""
    return quote(name, safe="").replace("~", "%7E")


def _write_all(opened: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(opened, left) :]


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
