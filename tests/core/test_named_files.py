"""Files that somebody names are read no further than they may be long, and not from anywhere."""

import os
from pathlib import Path

import pytest

from core.files.named_files import read_beside, read_bounded


def test_no_more_is_read_than_a_file_may_have(tmp_path: Path):
    """Of one without an end, too."""
    assert read_bounded("/dev/zero", 1_000) == bytes(1_001)
    (tmp_path / "words").write_bytes(b"heron")
    assert read_bounded(tmp_path / "words", 1_000) == b"heron"
    assert read_beside(tmp_path, "words", 2) == b"her"


def test_a_file_that_another_names_is_a_plain_one_beside_it(tmp_path: Path):
    """A link within the folder is; one that leads out of it, a linked folder, a pipe, a device are not, and
    nobody waits for a pipe's writer."""
    outside, folder = tmp_path / "outside", tmp_path / "rules"
    outside.mkdir()
    (folder / "lists").mkdir(parents=True)
    (outside / "secret").write_text("x")
    (folder / "lists" / "birds").write_text("heron")
    (folder / "same").symlink_to("lists/birds")
    (folder / "away").symlink_to("../outside/secret")
    (folder / "linked").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    for name in ("lists/birds", "same"):
        assert read_beside(folder, name, 9) == read_beside(tmp_path / "link", name, 9) == b"heron"
    for name, why in (
        ("away", "a link out of"),
        ("linked/secret", "a link out of"),
        ("../outside/secret", "a link out of"),
        ("/dev/zero", "a link out of"),
        ("pipe", "no plain file"),
        ("lists", "no plain file"),
        ("loop", "symbolic links"),
        ("none", "No such file"),
    ):
        with pytest.raises(OSError, match=why):
            read_beside(folder, name, 9)
