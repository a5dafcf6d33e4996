"""Copies a SQLite database that others are writing to, in one step: in pieces it would begin anew with every
commit. Checks the copy."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from core.errors import StartupError
from core.sql.database import SQLITE_BUSY_MS
from core.sql.store_errors import DATABASE

LOOK_SECONDS = 0.25
FULL = "SQLITE_FULL"
UNWRITABLE = "SQLITE_IOERR_WRITE"


async def copy_database(source: Path, target: Path, grown: Callable[[int, int], None]) -> None:
    """Write the database's present state into a new file. `grown`: told of its bytes so far, and of those
    that are expected. Raises StartupError, OSError."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with _opened(source) as connection:
        expected = await asyncio.to_thread(_expected_bytes, connection)
        _require_room(target.parent, expected)
        copying = asyncio.ensure_future(
            asyncio.to_thread(connection.execute, "VACUUM INTO ?", (str(target),))
        )
        try:
            while not (await asyncio.wait((copying,), timeout=LOOK_SECONDS))[0]:
                grown(os.stat(target).st_size, expected)
        finally:
            if not copying.done():
                connection.interrupt()
                await asyncio.wait((copying,))
        try:
            copying.result()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") == FULL:
                _refuse_room(target.parent, expected)
            raise


async def check_database(file: Path) -> None:
    """Read every row of a copy. Raises StartupError where it is damaged."""
    with _opened(file) as connection:
        found = await asyncio.to_thread(lambda: connection.execute("PRAGMA quick_check(1)").fetchall())
    if found != [("ok",)]:
        raise StartupError(f"the copy {file.name} is damaged")


@contextmanager
def _opened(file: Path) -> Generator[sqlite3.Connection]:
    """A connection that only reads. Its errors become a StartupError."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(file))}?mode=ro",
            uri=True,
            isolation_level=None,
            timeout=SQLITE_BUSY_MS / 1000,
            check_same_thread=False,  # a thread waits for it, and this one interrupts it
        )
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name == UNWRITABLE:
            raise StartupError("the copy cannot be written: its disk is full or failing") from error
        raise StartupError(f"cannot copy {file}: {DATABASE.get(name, name)}") from error


def _expected_bytes(connection: sqlite3.Connection) -> int:
    """The size of a copy, which has no free pages; it may be smaller."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _require_room(folder: Path, expected: int) -> None:
    """Raise StartupError rather than fill a disk that the database may be on too."""
    if _free_bytes(folder) < expected:
        _refuse_room(folder, expected)


def _refuse_room(folder: Path, expected: int) -> None:
    free = _free_bytes(folder)
    raise StartupError(
        f"there is no room for the copy: it takes up to {expected:,} bytes, and {free:,} are free"
    )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
