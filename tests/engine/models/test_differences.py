"""What two versions of a model differ in, by the kind of their files."""

import pytest

from engine.models.differences import differences

BEFORE = {
    "model.safetensors": "a",
    "config.json": "a",
    "generation_config.json": "a",
    "tokenizer.json": "a",
    "chat_template.jinja": "a",
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"tokenizer.json": "b"}, ["tokenizer"]),
        ({"vocab.json": "b"}, ["tokenizer"]),
        ({"chat_template.jinja": "b", "model.safetensors": "b"}, ["weights", "template"]),
        ({"model-2.safetensors": "b", "generation_config.json": "b"}, ["weights", "sampling defaults"]),
        ({"config.json": "b"}, ["architecture"]),
    ],
)
def test_each_difference_is_named_by_its_kind(changes: dict[str, str], found: list[str]):
    """In an order of its own, whichever files they are in."""
    assert differences({"sha256": BEFORE}, {"sha256": BEFORE | changes}) == found
    assert differences({"sha256": BEFORE | changes}, {"sha256": BEFORE}) == found


def test_files_that_an_older_manifest_does_not_cover_are_no_difference():
    """Its rule knew nothing of them; of the others each counts."""
    newer = {"fingerprint_rule": 2, "sha256": BEFORE | {"tokenizer_config.json": "b"}}
    assert differences({"sha256": BEFORE}, newer) == []
    assert differences({"sha256": BEFORE | {"config.json": "b"}}, newer) == ["architecture"]
    assert differences({}, {}) == []
