"""The place of a backup: whole under its name or not there; a .tar file from elsewhere does no harm."""

import fcntl
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from admin.backup.archive import DRAFT, MEMBERS_MAX, drafted, opened
from admin.backup.manifest import FILE, CopiedDatabase, Manifest, copied_file, encode_manifest, read_manifest
from core.errors import StartupError

ENDS = "ends/default~a~1.ends"


def filled(copy: Path) -> None:
    """Files as a backup has them."""
    (copy / "ends").mkdir(mode=0o700)
    (copy / ENDS).write_bytes(b"ends")
    database = CopiedDatabase("sqlite", "database.sqlite", "p0001", {})
    made = Manifest(1, "0.1.0", "parley", 5, database, [], [], [], [copied_file(copy, ENDS)])
    (copy / FILE).write_bytes(encode_manifest(made))


def contents_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", ["monday", "monday.tar"])
def test_a_backup_has_its_name_once_it_is_whole(tmp_path: Path, name: str):
    """A folder or a .tar file, for its owner alone; both are read as a folder, and nothing else stays."""
    os.umask(0o022)
    target = tmp_path / name
    with drafted(target) as copy:
        filled(copy)
        assert not target.exists()
    assert os.listdir(tmp_path) == [name]
    assert target.stat().st_mode & 0o777 == (0o600 if target.is_file() else 0o700)
    with opened(target) as folder:
        assert read_manifest(folder).files == [copied_file(folder, ENDS)]
        assert contents_of(folder).keys() == {FILE, ENDS}
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["monday", "monday.tar"])
def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, name: str):
    """What was copied before the failure is gone too."""

    def fail() -> None:
        with drafted(tmp_path / name) as copy:
            filled(copy)
            raise StartupError("the disk is full")

    with pytest.raises(StartupError, match="the disk is full"):
        fail()
    assert os.listdir(tmp_path) == []


def test_what_the_disk_did_not_keep_is_noticed(tmp_path: Path):
    """A packed backup is read once more before it has its name."""

    def damage() -> None:
        with drafted(tmp_path / "monday.tar") as copy:
            filled(copy)
            (copy / ENDS).write_bytes(b"else")

    with pytest.raises(StartupError, match="is damaged"):
        damage()
    assert os.listdir(tmp_path) == []


def test_what_is_there_is_not_written_over(tmp_path: Path):
    """Neither what was there before, a link to nowhere too, nor what came while the copy was made."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("link", "."):
        with pytest.raises(StartupError, match="exists already"), drafted(tmp_path / name):
            pass
    for late in (tmp_path / "late", tmp_path / "late.tar"):
        with pytest.raises(StartupError, match="exists already"), drafted(late):
            late.write_bytes(b"mine")
        assert late.read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["late", "late.tar", "link"]
    with pytest.raises(StartupError, match="does not exist"), drafted(tmp_path / "none" / "x"):
        pass


def test_drafts_of_killed_backups_are_removed(tmp_path: Path):
    """One that somebody is still making stays: its lock is held."""
    for name in ("dead", "alive"):
        (tmp_path / f".{DRAFT}{name}" / "copy").mkdir(parents=True)
    lock = os.open(tmp_path / f".{DRAFT}alive", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with drafted(tmp_path / "next") as copy:
            filled(copy)
    finally:
        os.close(lock)
    assert sorted(os.listdir(tmp_path)) == [f".{DRAFT}alive", "next"]


def member(name: str, **facts: object) -> tarfile.TarInfo:
    """A member of an archive that somebody made."""
    made = tarfile.TarInfo(name)
    for each, value in facts.items():
        setattr(made, each, value)
    return made


HOSTILE: dict[str, Callable[[], tarfile.TarInfo]] = {
    "a path upwards": lambda: member("../escaped"),
    "a path upwards within": lambda: member("ends/../../escaped"),
    "an absolute path": lambda: member("/tmp/escaped"),
    "a symbolic link": lambda: member("secret", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": lambda: member("secret", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a device": lambda: member("secret", type=tarfile.CHRTYPE),
    "a pipe": lambda: member("secret", type=tarfile.FIFOTYPE),
    "a deep path": lambda: member("ends/a/b"),
    "another folder": lambda: member("models/weights"),
    "more than it holds": lambda: member("database.sqlite", size=1 << 40),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_archive_from_elsewhere_does_no_harm(tmp_path: Path, what: str):
    """What no backup holds ends the reading with one line, and nothing was written outside."""
    source = tmp_path / "in" / "made.tar"
    source.parent.mkdir()
    with tarfile.open(source, "w:") as tar:
        tar.addfile(member("manifest.json", size=2), io.BytesIO(b"{}"))
        tar.fileobj.write(HOSTILE[what]().tobuf())  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(StartupError, match=r"made\.tar is no"), opened(source):
        pass
    assert os.listdir(tmp_path) == ["in"]
    assert os.listdir(source.parent) == ["made.tar"]


def test_the_same_name_twice_is_refused(tmp_path: Path):
    """Else the second would be what is restored, and the first what was looked at."""
    with tarfile.open(tmp_path / "made.tar", "w:") as tar:
        for _ in range(2):
            tar.addfile(member("secret", size=2), io.BytesIO(b"ab"))
    with pytest.raises(StartupError, match="cannot be unpacked"), opened(tmp_path / "made.tar"):
        pass


def test_too_many_members_are_refused(tmp_path: Path):
    """Their number has a bound: each takes a file."""
    (tmp_path / "made.tar").write_bytes(member("ends", type=tarfile.DIRTYPE).tobuf() * (MEMBERS_MAX + 1))
    with pytest.raises(StartupError, match="no backup of ours"), opened(tmp_path / "made.tar"):
        pass


def test_a_folder_that_was_packed_by_hand_is_to_be_unpacked(tmp_path: Path):
    """Its files stand below the folder's name."""
    with tarfile.open(tmp_path / "made.tar", "w:") as tar:
        tar.addfile(member("monday/secret", size=2), io.BytesIO(b"ab"))
    with pytest.raises(StartupError, match="Unpack it, and name that folder"), opened(tmp_path / "made.tar"):
        pass


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00" * 200])
def test_what_is_no_archive_is_said(tmp_path: Path, content: bytes):
    """An empty or foreign file has no manifest, or is no archive; a place where there is nothing is named."""
    (tmp_path / "made.tar").write_bytes(content)
    with pytest.raises(StartupError, match=r"made\.tar"), opened(tmp_path / "made.tar"):
        pass
    with pytest.raises(StartupError, match="there is no backup"), opened(tmp_path / "none.tar"):
        pass


def test_a_cut_off_archive_is_refused(tmp_path: Path):
    """A copy that ended too early lacks bytes of a file."""
    with drafted(tmp_path / "whole.tar") as copy:
        filled(copy)
    data = (tmp_path / "whole.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[:2_000])
    with pytest.raises(StartupError, match=r"cut\.tar .*cut off"), opened(tmp_path / "cut.tar"):
        pass
