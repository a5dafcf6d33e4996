"""The mark of a restore that is under way, in PARLEY_HOME: what a killed one leaves, so that the same backup
can be restored again over its own half.

Written before anything else is, removed at the end.
"""

import os
from pathlib import Path
from typing import Annotated

import msgspec

from core.errors import StartupError
from core.runtime.embedded import RESTORE_MARK

BYTES_MAX = 256 << 20


class CountedBefore(msgspec.Struct, frozen=True):
    """Sums that a Redis that survived had counted of a tenant before the restore. `output`: tokens."""

    requests: Annotated[int, msgspec.Meta(ge=0)]
    cost_nano: int
    output: Annotated[int, msgspec.Meta(ge=0)] = 0


class RestoreMark(msgspec.Struct, frozen=True):
    """Progress of a restore. `backup_sha256`: of the manifest; `placed`: the database is there; `counted`: by
    tenant, None before Redis was asked; `recorded`: the audit row is written."""

    backup_sha256: str
    placed: bool = False
    counted: dict[str, CountedBefore] | None = None
    recorded: bool = False


_decoder = msgspec.json.Decoder(RestoreMark)


def read_mark(home: Path) -> RestoreMark | None:
    """The mark of a restore that did not end; None where there is none. Raises StartupError."""
    path = home / RESTORE_MARK
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(BYTES_MAX))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StartupError(
            f"{path} is damaged: empty the home and the database, and restore into them"
        ) from error


def write_mark(home: Path, mark: RestoreMark) -> RestoreMark:
    """Put a mark in place of the last one, on the disk when it returns. Raises StartupError."""
    path = home / RESTORE_MARK
    draft = path.with_name(f".{RESTORE_MARK}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(mark))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        raise StartupError(f"cannot write {path}: {error.strerror}") from error
    return mark


def remove_mark(home: Path) -> None:
    """Say that the restore has ended."""
    (home / RESTORE_MARK).unlink(missing_ok=True)
