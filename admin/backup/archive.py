"""The place of a backup on disk: a draft beside the target, which gets the target's name when it is whole,
and a folder to read, also of a .tar file.

A draft is locked by the process that makes it, so that what a killed one left is known by its free lock and
removed. Blocks: call it in a thread.
"""

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from admin.backup.manifest import (
    CHUNK_BYTES,
    ENDS_FOLDER,
    FILE,
    POSTGRES_FILE,
    SECRET_FILE,
    SQLITE_FILE,
    CopiedFile,
    decode_manifest,
    hashed,
)
from core.errors import StartupError

SUFFIX = ".tar"
PACKED = {".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".zst", ".zip", ".7z", ".lz4"}
DRAFT = "parley-backup-"
COPY = "copy"
MEMBERS_MAX = 20_000
DEPTH_MAX = 2  # `ends/NAME`
OF_A_BACKUP = {FILE, SECRET_FILE, SQLITE_FILE, POSTGRES_FILE, ENDS_FOLDER}


def require_new(target: Path) -> None:
    """Raise StartupError where a backup cannot be made under this name."""
    if os.path.lexists(target):
        raise StartupError(f"{target} exists already: name another place, nothing is written over")
    if not target.parent.is_dir():
        raise StartupError(f"the folder {target.parent} does not exist")
    if target.suffix.lower() in PACKED:
        raise StartupError(
            f"a backup is a folder, or one file where its name ends with {SUFFIX}: {target.name} would be a "
            "folder. Pack it afterwards"
        )


def require_apart(target: Path, home: Path) -> None:
    """Raise StartupError for a backup inside of what it copies, with which it would be lost."""
    if target.parent.resolve().is_relative_to(home.resolve()):
        raise StartupError(
            f"{target} is inside of PARLEY_HOME {home}, with which it would be lost: elsewhere"
        )


@contextmanager
def failing_disk(place: Path) -> Generator[None]:
    """Turn an OSError of writing there into a StartupError of one line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else error.strerror or type(error).__name__
        raise StartupError(f"cannot write the backup in {place}: {why}") from error


@contextmanager
def drafted(target: Path) -> Generator[Path]:
    """An empty folder for the copy, which has the target's name (and form) once the block ends well.

    What the block leaves is gone where it fails. Raises StartupError.
    """
    require_new(target)
    remove_stale(target.parent)
    draft, lock = _locked_draft(target.parent)
    try:
        copy = draft / COPY
        with failing_disk(target.parent):
            copy.mkdir(mode=0o700)
            yield copy
            _put_in_place(draft, copy, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def remove_stale(folder: Path) -> None:
    """Remove the drafts of backups that were killed: those whose lock is free."""
    for path in folder.glob(f".{DRAFT}*"):
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(lock)


@contextmanager
def opened(source: Path, scratch: Path | None = None) -> Generator[Path]:
    """The folder of a backup, for reading. A .tar file is unpacked into `scratch` (else beside it) while the
    block runs. Raises StartupError where it is neither, or holds what no backup does."""
    if source.is_dir():
        yield source
        return
    if not source.is_file():
        raise StartupError(f"there is no backup {source}")
    place = source.parent if scratch is None else scratch
    remove_stale(place)
    folder, lock = _locked_draft(place)
    try:
        try:
            _unpack(source, folder)
        except OSError as error:
            raise StartupError(f"{source} cannot be unpacked in {place}: {error.strerror}") from error
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def pack(folder: Path, file: Path) -> None:
    """Pack a backup's files, and remove each once it is packed: a large one is on the disk twice only while
    it is copied. Raises OSError."""
    with tarfile.open(file, "x:", format=tarfile.PAX_FORMAT) as tar:
        file.chmod(0o600)
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            facts = tarfile.TarInfo(path.relative_to(folder).as_posix())
            facts.size, facts.mode, facts.mtime = path.stat().st_size, 0o600, int(path.stat().st_mtime)
            with path.open("rb") as content:
                tar.addfile(facts, content)
            path.unlink()
    sync(file)


def _require_whole(file: Path) -> None:
    """Read a packed backup, and compare each of its files with the manifest in it. Raises StartupError."""
    found: list[CopiedFile] = []
    listed: list[CopiedFile] = []
    with tarfile.open(file, "r:") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            if member.name == FILE:
                listed = decode_manifest(content.read()).files
            else:
                found.append(hashed(member.name, content))
    if set(found) != set(listed) or len(found) != len(listed):
        raise StartupError(f"{file.name} is damaged: the disk does not keep what is written")


def sync(path: Path) -> None:
    """Write a file, or a folder's names, to the disk. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _locked_draft(place: Path) -> tuple[Path, int]:
    """A new folder there, and its lock. One that who looks for stale ones took first is left to them."""
    while True:
        draft = place / f".{DRAFT}{secrets.token_hex(6)}"
        try:
            draft.mkdir(mode=0o700)
        except OSError as error:
            raise StartupError(f"{place} cannot be written: {error.strerror}") from error
        with suppress(OSError):
            lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if draft.exists():
                    return draft, lock
            except OSError:
                pass
            os.close(lock)


def _put_in_place(draft: Path, copy: Path, target: Path) -> None:
    """Give the copy its name. Nothing is overwritten, whoever made something of this name meanwhile."""
    if target.suffix == SUFFIX:
        packed = draft / f"packed{SUFFIX}"
        pack(copy, packed)
        _require_whole(packed)
        try:
            target.hardlink_to(packed)
        except FileExistsError:
            require_new(target)
        except OSError:  # a file system without links
            require_new(target)
            packed.rename(target)
    else:
        for folder in (copy, *(each for each in copy.rglob("*") if each.is_dir())):
            sync(folder)
        require_new(target)
        copy.rename(target)
    sync(target.parent)


def _unpack(source: Path, folder: Path) -> None:
    """Unpack plain files with plain names; a member cannot be larger than the file that it is in."""
    room, count = source.stat().st_size, 0
    try:
        with tarfile.open(source, "r:") as tar:
            for member in _members(tar):
                count += 1
                room -= member.size
                name = _safe_name(member)
                if count > MEMBERS_MAX or room < 0 or name is None:
                    raise StartupError(f"{source} is no backup of ours{_why(member, room)}")
                if member.isfile():
                    _unpack_one(tar, member, folder / name)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise StartupError(f"{source} is no .tar file, or was cut off or damaged") from error


def _why(member: tarfile.TarInfo, room: int) -> str:
    held = f": it holds {member.name[:100]!r}"
    if room < 0:
        return f", or was cut off{held}, which is larger than the rest of the file"
    parts = PurePosixPath(member.name).parts
    if len(parts) > 1 and parts[-1] in OF_A_BACKUP and ".." not in parts:
        return f"{held}. Is it a backup's folder that was packed? Unpack it, and name that folder"
    return held


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        yield member
        tar.members.clear()  # pyright: ignore[reportAttributeAccessIssue] # else all are kept


def _safe_name(member: tarfile.TarInfo) -> str | None:
    """The path of a plain file or folder below a backup's folder; None for anything else."""
    name = PurePosixPath(member.name)
    parts = name.parts
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) and not member.issparse()
    if (
        not plain
        or member.size < 0
        or name.is_absolute()
        or not 1 <= len(parts) <= DEPTH_MAX
        or ".." in parts
    ):
        return None
    if len(parts) > 1 and parts[0] != ENDS_FOLDER:
        return None
    return str(name) if "\x00" not in member.name else None


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None
    path.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with content, os.fdopen(os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR), "wb") as made:
        shutil.copyfileobj(content, made, CHUNK_BYTES)
    if path.stat().st_size != member.size:
        raise EOFError
