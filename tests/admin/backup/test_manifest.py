"""The manifest of a backup: what it lists is read back, and damage is named."""

from pathlib import Path

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
    """A folder with two files and their manifest."""
    (folder / "ends").mkdir()
    (folder / "database.sqlite").write_bytes(b"rows")
    (folder / "ends" / "default~a~1.ends").write_bytes(b"ends")
    files = [copied_file(folder, name) for name in ("database.sqlite", "ends/default~a~1.ends")]
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        (b"{", "not one of ours"),
        (b"[]", "not one of ours"),
        (b'{"format":1}', "not one of ours"),
        (b'{"format":2}', "another release"),
    ],
)
def test_what_is_no_backup_is_refused(tmp_path: Path, text: bytes | None, why: str):
    """In one line, which says why."""
    if text is not None:
        (tmp_path / manifest.FILE).write_bytes(text)
    with pytest.raises(StartupError, match=why):
        read_manifest(tmp_path)
