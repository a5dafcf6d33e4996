"""The manifest of a backup: what it lists is read back, and damage is named."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admin.backup import manifest
from admin.backup.manifest import (
    CopiedDatabase,
    CopiedHead,
    Manifest,
    NamedModel,
    UnbookedEnds,
    copied_file,
    damaged_files,
    encode_manifest,
    read_manifest,
)
from core.errors import StartupError


def a_backup(folder: Path) -> Manifest:
    """A folder with three files and their manifest."""
    (folder / "ends").mkdir()
    (folder / "database.sqlite").write_bytes(b"rows")
    (folder / "ends" / "default~a~1.ends").write_bytes(b"ends")
    (folder / "secret").write_bytes(b"secret")
    names = ("database.sqlite", "ends/default~a~1.ends", "secret")
    files = [copied_file(folder, name) for name in names]
    database = CopiedDatabase("sqlite", "database.sqlite", "p0001", {"usage_event": 3})
    heads = [CopiedHead("books", "t1", 3, "ab")]
    models = [NamedModel("smollm2", "1", "ff")]
    made = Manifest(1, "0.1.0", "parley", 5, database, heads, models, [UnbookedEnds("default", 2, 1)], files)
    (folder / manifest.FILE).write_bytes(encode_manifest(made))
    return made


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path):
    """And a whole backup has no damaged file."""
    made = a_backup(tmp_path)
    assert read_manifest(tmp_path) == made
    assert damaged_files(tmp_path, made) == []


def test_damage_is_named(tmp_path: Path):
    """A file that was changed, one that is gone, and a name that leads out of the folder."""
    made = a_backup(tmp_path)
    (tmp_path / "database.sqlite").write_bytes(b"rows and more")
    (tmp_path / "ends" / "default~a~1.ends").unlink()
    outside = msgspec.structs.replace(made.files[0], name="../elsewhere")
    (tmp_path.parent / "elsewhere").write_bytes(b"rows")
    found = damaged_files(tmp_path, msgspec.structs.replace(made, files=[*made.files, outside]))
    assert found == ["database.sqlite", "ends/default~a~1.ends", "../elsewhere"]


FORGED = {
    "no files": {"files": []},
    "a database elsewhere": {"file": "/etc/hostname"},
    "a database above": {"file": "../database.sqlite"},
    "another file as the database": {"file": "secret"},
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_restore_reads_is_in_the_manifest(tmp_path: Path, name: str):
    """The database under its own name, the secret, and every journal; other files are nobody's business."""
    made = a_backup(tmp_path)
    (tmp_path / ".stray").write_bytes(b"x")
    assert damaged_files(tmp_path, made) == []
    changes: dict[str, Any] = FORGED[name]
    database = msgspec.structs.replace(made.database, file=changes.get("file", made.database.file))
    forged = msgspec.structs.replace(made, database=database, files=changes.get("files", made.files))
    assert damaged_files(tmp_path, forged) == (
        [database.file] if "file" in changes else sorted(each.name for each in made.files)
    )


@pytest.mark.parametrize("name", ["ends/late.ends", "ends/deeper"])
def test_what_was_put_among_the_journals_is_damage(tmp_path: Path, name: str):
    """It would be billed, and no hash is of it."""
    made = a_backup(tmp_path)
    (tmp_path / name).write_bytes(b"ends")
    assert damaged_files(tmp_path, made) == [name]


@pytest.mark.parametrize(
    "name", ["/", "", ".", "ends/../secret", "./secret", "a/secret", "ends/a/b", "a\0b", "x" * 300]
)
def test_a_name_that_is_none_is_damage(tmp_path: Path, name: str):
    """Whatever file it would lead to."""
    made = a_backup(tmp_path)
    named = msgspec.structs.replace(made.files[-1], name=name)
    assert damaged_files(tmp_path, msgspec.structs.replace(made, files=[*made.files, named])) == [name]


@pytest.mark.parametrize(
    "name", ["database.sqlite", "secret", "ends/default~a~1.ends", "ends", manifest.FILE]
)
@pytest.mark.parametrize("what", ["pipe", "link", "folder"])
def test_what_is_no_file_is_damage(tmp_path: Path, name: str, what: str):
    """A pipe is not waited for, and no link is followed, not even to the very file."""
    backup = tmp_path / "backup"
    backup.mkdir()
    made, path, aside = a_backup(backup), backup / name, tmp_path / "aside"
    path.rename(aside)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(aside)
    else:
        path.mkdir()
    if name == manifest.FILE:
        with pytest.raises(StartupError, match="is no backup: cannot read"):
            read_manifest(backup)
    else:
        assert damaged_files(backup, made)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        (b"{", "not one of ours"),
        (b"[]", "not one of ours"),
        (b'{"format":1}', "not one of ours"),
        (b'{"format":2}', "another release"),
        (b"[" * 100_000, "not one of ours"),
    ],
)
def test_what_is_no_backup_is_refused(tmp_path: Path, text: bytes | None, why: str):
    """In one line, which says why."""
    if text is not None:
        (tmp_path / manifest.FILE).write_bytes(text)
    with pytest.raises(StartupError, match=why):
        read_manifest(tmp_path)
