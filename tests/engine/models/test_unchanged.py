"""A worker starts only with the files and settings that its version was added with."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from core.configuration.settings import Settings
from core.errors import StartupError
from engine.models.fingerprint import digests
from engine.models.registry import ModelRecord
from engine.models.unchanged import changed_files, check_files, check_runnable, check_settings, measured
from tests.support.models import small_model

RECORD = ModelRecord("tiny", "v1", "fp", Path("/none"), 128, dtype="auto")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared folder, with its manifest."""
    made = small_model(tmp_path / "tiny")
    manifest = {"name": "tiny", "version": "v1", "fingerprint_rule": 2, "sha256": digests(made)}
    (made / "manifest.json").write_text(json.dumps(manifest | measured(made)))
    return made


def check(folder: Path) -> None:
    """As at a worker's start."""
    check_files(folder, json.loads((folder / "manifest.json").read_text()))


def test_a_folder_that_is_as_it_was_is_taken(folder: Path):
    """Also with other times, as a copy has them; a manifest of before says no sizes."""
    check(folder)
    os.utime(folder / "model.safetensors", (1, 1))
    check(folder)
    (folder / "model.safetensors").unlink()
    check_files(folder, {"name": "tiny", "version": "v1", "sha256": {"model.safetensors": "x"}})


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("model.safetensors", b"weight!", "the same size, another content"),
        ("model.safetensors", b"weights!", "7 bytes then, 8 now"),
        ("tokenizer_config.json", b"", "bytes then, 0 now"),
    ],
)
def test_a_file_that_was_changed_by_one_byte_is_named(folder: Path, name: str, content: bytes, told: str):
    """With what is to be done."""
    (folder / name).write_bytes(content)
    os.utime(folder / name, (1, 1))
    with pytest.raises(StartupError, match=f"tiny v1: .*{name} was changed .*{told}.*put it back, or add"):
        check(folder)


def test_a_file_that_is_gone_is_named(folder: Path):
    """As a link whose target was moved."""
    (folder / "config.json").unlink()
    with pytest.raises(StartupError, match=r"tiny v1: .*config\.json cannot be read"):
        check_runnable(replace(RECORD, folder=folder), Settings())


def test_hashes_find_what_sizes_and_times_hide(folder: Path):
    """Each file has a line."""
    manifest = json.loads((folder / "manifest.json").read_text())
    stat = (folder / "model.safetensors").stat()
    (folder / "model.safetensors").write_bytes(b"weight!")
    os.utime(folder / "model.safetensors", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    check(folder)
    (folder / "vocab.json").write_text("{}")
    (folder / "config.json").unlink()
    lines = list[str]()
    changed = changed_files(folder, manifest, lines.append)
    assert changed == ["config.json", "model.safetensors", "vocab.json"]
    assert lines == [
        "config.json is gone",
        "model.safetensors is another",
        "tokenizer.json is unchanged",
        "tokenizer_config.json is unchanged",
        "vocab.json is new",
    ]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"worker_dtype": "float32"}, "with PARLEY_WORKER_DTYPE auto, and this node has float32"),
        ({"worker_max_model_len": 64}, "with PARLEY_WORKER_MAX_MODEL_LEN 128, and this node has 64"),
    ],
)
def test_a_node_with_another_setting_is_refused_with_both_values(settings: dict[str, object], told: str):
    """A longer length than the version's is none, and what rule 1 added says nothing of settings."""
    with pytest.raises(StartupError, match=f"tiny v1 was added {told}"):
        check_settings(RECORD, Settings.model_validate(settings))
    check_settings(replace(RECORD, dtype=None), Settings.model_validate(settings))
    check_settings(RECORD, Settings(worker_max_model_len=4_096))
