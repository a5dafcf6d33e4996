"""A level's document as people write it: the platform's, a tenant's or a project's. Pure.

It is the struct that is pinned, without `scope`: whose rule an entry is follows from where it is saved.
"""

from typing import Any, cast

import msgspec

from engine.safety.documents import PolicyDocument, stored

SCOPE = "scope"


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
