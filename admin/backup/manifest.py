"""The manifest of a backup: the list of its files, and the state that the database was copied in.

Encodes, decodes and compares; the only I/O is reading a backup's files, which may be anybody's.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import msgspec

from core.errors import StartupError

FORMAT = 1
FILE = "manifest.json"
SQLITE_FILE = "database.sqlite"
POSTGRES_FILE = "database.dump"
SECRET_FILE = "secret"
ENDS_FOLDER = "ends"
CHUNK_BYTES = 1 << 20
MANIFEST_BYTES_MAX = 64 << 20


class CopiedFile(msgspec.Struct, frozen=True):
    """A file of the backup. `name`: its path below the backup's folder; `sha256`: hex."""

    name: str
    bytes: int
    sha256: str


class CopiedDatabase(msgspec.Struct, frozen=True):
    """The database of a backup. `schema`: its revision; `made_from`: hash of the migrations' text that made
    it (core/sql/schema_origin.py), empty: not told; `server`, `tool`: versions of Postgres and of the
    pg_dump that copied it, empty for SQLite; `rows`: numbers of rows by table."""

    kind: Literal["sqlite", "postgresql"]
    file: str
    schema: str
    rows: dict[str, int]
    server: str = ""
    tool: str = ""
    made_from: str = ""


class CopiedHead(msgspec.Struct, frozen=True):
    """The end of one hash chain in the copy. `chain`: `books` or `changes`; `tenant` empty: the platform."""

    chain: Literal["books", "changes"]
    tenant: str
    sequence: int
    sha256: str


class NamedModel(msgspec.Struct, frozen=True):
    """A model version that the database names. Its weights are not in the backup."""

    name: str
    version: str
    fingerprint: str


class UnbookedEnds(msgspec.Struct, frozen=True):
    """Ended requests of a pool that no biller has acknowledged: events in Redis, and ends in journals, of
    which some are the same. `redis` None: Redis was away."""

    pool: str
    redis: int | None
    journals: int


class Manifest(msgspec.Struct, frozen=True):
    """All of a backup but its files. `made_ms`: time of the database's copy, Unix ms; `release`: the Parley
    that made it."""

    format: int
    release: str
    installation: str
    made_ms: int
    database: CopiedDatabase
    heads: list[CopiedHead]
    models: list[NamedModel]
    unbooked: list[UnbookedEnds]
    files: list[CopiedFile]


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Indented JSON, for people too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """The manifest in these bytes. Raises MsgspecError."""
    return _decoder.decode(data)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup's folder. Raises StartupError where the folder is no backup, or one of a
    newer release."""
    path = folder / FILE
    try:
        with opened_plainly(path) as file:
            data = file.read(MANIFEST_BYTES_MAX + 1)
        if len(data) > MANIFEST_BYTES_MAX:
            raise StartupError(f"{path} is too large for a manifest")
        found = msgspec.json.decode(data)
        if isinstance(found, dict) and found.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType]
            raise StartupError(f"{folder} was made by another release: its format is not {FORMAT}")
        return _decoder.decode(data)
    except OSError as error:
        raise StartupError(f"{folder} is no backup: cannot read {FILE}: {error.strerror}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StartupError(f"{folder} is no backup: {FILE} is not one of ours") from error


def opened_plainly(path: Path) -> IO[bytes]:
    """A file, opened for reading. Raises OSError, also where it is a link, a pipe or anything but a file."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return os.fdopen(opened, "rb")
    os.close(opened)
    raise OSError(errno.EINVAL, "it is no file")


def copied_file(folder: Path, name: str) -> CopiedFile:
    """The size and hash of a file below a folder. Raises OSError."""
    with opened_plainly(folder / name) as file:
        return hashed(name, file)


def hashed(name: str, content: IO[bytes]) -> CopiedFile:
    """The size and hash of an open file, from where it stands. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    while chunk := content.read(CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return CopiedFile(name, size, digest.hexdigest())


def is_plain_name(name: str) -> bool:
    """True for a file's name in the backup's folder, or in that of ends."""
    parts = PurePosixPath(name).parts
    plain = "/".join(parts) == name and ".." not in parts and "\x00" not in name
    return plain and (len(parts) == 1 or (len(parts) == 2 and parts[0] == ENDS_FOLDER))


def damaged_files(folder: Path, manifest: Manifest) -> list[str]:
    """Names of files that are missing, not what they were, or read by a restore and not in the manifest."""
    listed = {each.name for each in manifest.files}
    kept = SQLITE_FILE if manifest.database.kind == "sqlite" else POSTGRES_FILE
    found = [each.name for each in manifest.files if not _is_whole(folder, each)]
    if manifest.database.file != kept:
        found.append(manifest.database.file)
    ends = folder / ENDS_FOLDER
    present = {f"{ENDS_FOLDER}/{each.name}" for each in ends.glob("*")}
    read = {kept, SECRET_FILE, *present, *([ENDS_FOLDER] if ends.is_symlink() else [])}
    return found + sorted(read - listed)


def _is_whole(folder: Path, file: CopiedFile) -> bool:
    try:
        return is_plain_name(file.name) and copied_file(folder, file.name) == file
    except OSError:
        return False
