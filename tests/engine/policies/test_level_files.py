"""A level's file: read with the version that it was shown on, or refused with the place and the reason."""

import json

import pytest

from engine.policies.level_files import file_facts, level_file
from engine.policies.word_files import word_file
from engine.safety.documents import DEFAULT, DOCUMENT_BYTES_MAX, PolicyDetector, PolicyDocument, PolicyError

WORDS = {"name": "birds", "action": "flag", "words_file": "birds.txt"}
CARD = PolicyDocument((PolicyDetector("card", "flag"),))


def unread(name: str) -> bytes:
    """These documents name no other file."""
    raise AssertionError(name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_is_shown_is_read_with_its_version(encoding: str) -> None:
    """As editors and shells of other systems save it too."""
    read = level_file(json.dumps(file_facts(DEFAULT, 8)).encode(encoding), unread)
    assert (read.document, read.base) == (DEFAULT, 8)
    assert level_file(b'{"detectors": [{"name": "card", "action": "flag"}]}', unread).document == CARD
    assert level_file(b"{}", unread).base is None


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
        level_file(written, unread)


def test_a_list_takes_its_words_from_a_file() -> None:
    """One a line; blank lines, and words that fold to one that is there, are left out and told."""
    written = "\ufeffblue heron\r\n\r\n  night owl \nBlue  Heron\nｎight owl\n".encode()
    read = level_file(json.dumps({"words": [WORDS]}).encode(), {"birds.txt": written}.__getitem__)
    (words,) = read.document.words
    assert words.words == ("blue heron", "night owl")
    assert read.notes == [
        "birds.txt: 2 words; left out: 1 blank line, 2 words that are there already",
    ]
    assert word_file(b"heron\nowl").note("x") == "x: 2 words"


@pytest.mark.parametrize(
    ("entry", "written", "why"),
    [
        ({"words": ["owl"]}, b"owl", "`words_file` is a file's name in place of `words`"),
        ({"words_file": 3}, b"owl", "`words_file` is a file's name"),
        ({"words_file": ""}, b"owl", "in the document's own folder"),
        ({"words_file": "/etc/passwd"}, b"owl", "in the document's own folder"),
        ({"words_file": "a\0b"}, b"owl", "in the document's own folder"),
        ({"words_file": "a\ud800"}, b"owl", "in the document's own folder"),
        ({"words_file": "a/../../x"}, b"owl", "in the document's own folder"),
        ({}, b"\n \n", "words, birds: birds.txt: it has no words"),
        ({}, b"owl\n\xff", "birds.txt: line 2 is not UTF-8"),
        ({}, b"\n" * (DOCUMENT_BYTES_MAX + 1), "256 KiB at most"),
    ],
)
def test_what_is_no_list_of_words_is_refused(entry: dict[str, object], written: bytes, why: str) -> None:
    """With the list and the file that it names."""
    with pytest.raises(PolicyError, match=why):
        level_file(json.dumps({"words": [{**WORDS, **entry}]}).encode(), lambda _: written)
