"""A level's document as people write it: the platform's, a tenant's or a project's. Pure.

It is the struct that is pinned, without `scope`: whose rule an entry is follows from where it is saved.
"""

from typing import Any, cast

import msgspec

from engine.safety.documents import DOCUMENT_BYTES_MAX, PolicyDocument, PolicyError, document_of, stored

SCOPE = "scope"
KINDS = ("detectors", "patterns", "words")


def level_of(data: bytes) -> PolicyDocument:
    """The level's document that this JSON is, not checked further (engine/safety/policy_checks.py). Raises
    PolicyError."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise PolicyError(
            f"a document has {DOCUMENT_BYTES_MAX >> 10} KiB at most, this one {len(data):,} bytes"
        )
    document = document_of(data)
    for kind, entries in msgspec.json.decode(data, type=dict[str, list[dict[str, Any]]]).items():
        for entry in entries:
            if SCOPE in entry:
                raise PolicyError(
                    f"{kind} {entry.get('name')}: leave out `scope`, which follows from where it is saved"
                )
    return document


def level_facts(document: PolicyDocument) -> dict[str, list[dict[str, Any]]]:
    """The document in JSON's types, without scopes."""
    facts = cast(dict[str, list[dict[str, Any]]], msgspec.json.decode(stored(document)))
    for entries in facts.values():
        for entry in entries:
            entry.pop(SCOPE, None)
    return facts


def level_text(document: PolicyDocument) -> str:
    """The document as it is kept and hashed."""
    return msgspec.json.encode(level_facts(document)).decode()
