"""A level's file: read with the version that it was shown on, or refused with the place and the reason."""

import json

import pytest

from engine.policies.level_files import file_facts, level_file
from engine.safety.documents import DEFAULT, DOCUMENT_BYTES_MAX, PolicyDetector, PolicyDocument, PolicyError

CARD = PolicyDocument((PolicyDetector("card", "flag"),))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_is_shown_is_read_with_its_version(encoding: str) -> None:
    """As editors and shells of other systems save it too."""
    read = level_file(json.dumps(file_facts(DEFAULT, 8)).encode(encoding))
    assert (read.document, read.base) == (DEFAULT, 8)
    assert level_file(b'{"detectors": [{"name": "card", "action": "flag"}]}').document == CARD
    assert level_file(b"{}").base is None


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"", "it is empty; a document without rules is {}"),
        (b"\xff\xfe", "it is empty"),
        (b"\xc3(", "it is no text: see byte 0"),
        (b"[]", "a document is an object"),
        (b'{\n "words": [,]}', "no JSON at line 2, column 12: Expecting value"),
        (
            rb'{"patterns": [{"name": "a", "pattern": "\d"}]}',
            r"column 41: .*backslash is written twice: \\\\b",
        ),
        (b"[" * 100_000, "its brackets are too deep"),
        (b'{"words": [], "words": []}', "`words` stands twice"),
        (
            b'{"detector": []}',
            "no `detector`, but detectors, patterns or words; did you mean detectors",
        ),
        (b'{"words": {}}', "words: a list of objects"),
        (b'{"words": ["blue heron"]}', "words, entry 1: an object"),
        (
            b'{"detectors": [{"name": "card", "action": "Redacted"}]}',
            "card: `action` is block, redact or flag; did you mean redact",
        ),
        (b'{"detectors": [{"name": "card", "prompt": "x"}]}', "card: `prompt` is block, redact or flag$"),
        (b'{"detectors": [{"name": "card", "acton": "flag"}]}', "no `acton`, but .*did you mean action"),
        (b'{"patterns": [{"name": "a", "action": "flag"}]}', "patterns, a: `pattern` is missing"),
        (b'{"patterns": [{"name": 3, "pattern": "a"}]}', "Expected `str`, got `int`"),
        (b'{"detectors": [{"name": "card", "action": "flag", "scope": "platform"}]}', "leave out `scope`"),
        (rb'{"words": [{"name": "a", "words": ["\ud800"], "action": "flag"}]}', "surrogate"),
        (b'{"base": "8"}', "`base` is a version's number"),
        (b'{"base": true}', "`base` is a version's number"),
        (b'{"words": []}' + b" " * DOCUMENT_BYTES_MAX, "256 KiB at most"),
    ],
)
def test_what_is_no_document_is_refused_with_the_place(written: bytes, why: str) -> None:
    """Nothing is guessed, and what may be meant is named."""
    with pytest.raises(PolicyError, match=why):
        level_file(written)
