"""Documents of policies: their bytes, their hash, what they read as."""

import msgspec
import pytest

from engine.safety.documents import (
    DEFAULT,
    DEFAULT_POLICY,
    PolicyDetector,
    PolicyDocument,
    PolicyError,
    PolicyPattern,
    PolicyWords,
    document_of,
    policy_hash,
    stored,
)

HASH = "057aeed0010867d25b966072340013af7dbbe050dc2bd85fbf0a1b2261592a59"


def test_the_default_policy_has_its_published_hash():
    """A change of the default is a new document: the former one goes on the list of former ones."""
    assert DEFAULT_POLICY == policy_hash(DEFAULT) == HASH


def test_a_document_is_what_its_bytes_say():
    """What is stored reads as the same document, whose hash is that of the bytes; what is not asked is left
    out."""
    document = PolicyDocument(
        (PolicyDetector("card", "redact", prompt="block", scope="tenant"),),
        (PolicyPattern("employee", "EMP-[0-9]{6}", prompt="flag", ignore_case=True),),
        (PolicyWords("birds", ("heron",), "block", scope="project"),),
    )
    assert document_of(stored(document)) == document
    assert policy_hash(document_of(stored(document))) == policy_hash(document)
    assert msgspec.json.decode(stored(document))["detectors"] == [
        {"name": "card", "action": "redact", "version": 1, "scope": "tenant", "prompt": "block"}
    ]
    assert document_of("{}") == PolicyDocument()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "truncated"),
        ('{"words": 1}', "words"),
        ('{"detector": []}', "unknown field `detector`"),
        ('{"detectors": [{"name": "card", "action": "hide"}]}', "hide"),
        ('{"patterns": [{"name": "a", "pattern": "b", "flags": "i"}]}', "unknown field `flags`"),
        (b'{"words": [{"name": "\xff", "words": []}]}', "not a policy"),
    ],
)
def test_what_is_no_document_is_refused(text: str | bytes, why: str):
    """No JSON, a field or a value that is none: an error that says which."""
    with pytest.raises(PolicyError, match=why):
        document_of(text)
