"""Fingerprints move with all that decides an answer's text, and only with that."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from core.configuration.settings import Settings
from engine.models.fingerprint import MadeWith, digests, fingerprint, fingerprint_of, made_with

RUN = MadeWith("auto", 4096)
OF_BOTH = ("model.safetensors", "tokenizer.json", "chat_template.jinja", "config.json")
OF_RULE_2 = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "x.model")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of all kinds."""
    for name in (*OF_BOTH, *OF_RULE_2, "README.md"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_fingerprint_covers_files_settings_and_engine(folder: Path):
    """Any of them changed is another fingerprint; a file beside them is not."""
    files = digests(folder)
    first = fingerprint(files, RUN)
    seen = {first, fingerprint(files, replace(RUN, dtype="float32"))}
    seen |= {fingerprint(files, replace(RUN, max_model_len=64)), fingerprint(files, RUN, engine="vllm-1")}
    (folder / "README.md").write_text("no matter")
    assert fingerprint(digests(folder), RUN) == first
    for name in (*OF_BOTH, *OF_RULE_2):
        (folder / name).write_text("changed")
        seen.add(fingerprint(digests(folder), RUN))
    assert len(seen) == 4 + len(OF_BOTH) + len(OF_RULE_2)


def test_what_was_prepared_by_rule_1_keeps_its_fingerprint(folder: Path):
    """To the letter: an upgrade takes no worker from anybody. It covers neither the files that rule 2 adds
    nor a length."""
    manifest = {"sha256": digests(folder, 1), "max_model_len": 4096}
    kept = "0ff4431111aa0fc8d267bd6d7f0e18113d7611cafcfd4b55a7a16f1135ece6e8"
    of_rule_1 = fingerprint_of(manifest, RUN)
    for name in OF_RULE_2:
        (folder / name).write_text("changed")
    assert digests(folder, 1) == manifest["sha256"]
    assert fingerprint_of(manifest, replace(RUN, max_model_len=64)) == of_rule_1
    assert fingerprint_of({**manifest, "fingerprint_rule": 2}, RUN) != of_rule_1
    assert of_rule_1 == kept


@pytest.mark.parametrize(("most", "length"), [(None, 128), (64, 64), (4_096, 128)])
def test_a_version_is_made_with_the_shorter_length(most: int | None, length: int):
    """Of the model's and the operator's."""
    settings = Settings(worker_max_model_len=most, worker_dtype="float32")
    assert made_with({"max_model_len": 128}, settings) == MadeWith("float32", length)


def test_a_file_is_read_in_pieces(tmp_path: Path):
    """However large it is."""
    (tmp_path / "a.safetensors").write_bytes(bytes(3 << 20))
    assert digests(tmp_path) == {"a.safetensors": hashlib.sha256(bytes(3 << 20)).hexdigest()}
