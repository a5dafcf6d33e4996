"""What a safety policy can say: its document, the bytes it is stored as, its hash, the default. Pure.

A level's document (platform, tenant, project) and the merged one that is pinned are the same struct: the
merge sets each entry's `scope`. `action` is for answers, `prompt` for prompts; None: nothing is looked for
there.
"""

import hashlib
from collections.abc import Iterator
from typing import Literal

import msgspec

from engine.safety.verdicts import Action, Scope

DOCUMENT_BYTES_MAX = 256 << 10  # of one level's document
Of = Literal["answer", "prompt"]


class PolicyError(ValueError):
    """A document that cannot be a policy. The message says which entry, and why."""


class PolicyDetector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A detector of a policy, what is done about its matches, and whose rule that is."""

    name: str
    action: Action | None = None
    # By factories: never left out of the stored bytes, which the default's hash is of.
    version: int = msgspec.field(default_factory=lambda: 1)
    scope: Scope = msgspec.field(default_factory=lambda: "platform")
    prompt: Action | None = None


class PolicyPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pattern of a policy's own (engine/safety/patterns.py: what one may be); `name` is its category."""

    name: str
    pattern: str
    action: Action | None = None
    prompt: Action | None = None
    ignore_case: bool = False
    scope: Scope = msgspec.field(default_factory=lambda: "platform")


class PolicyWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A list of words and phrases, looked for under their usual disguises; `name` is their category."""

    name: str
    words: tuple[str, ...]
    action: Action | None = None
    prompt: Action | None = None
    scope: Scope = msgspec.field(default_factory=lambda: "platform")


class PolicyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is looked for; the order, detectors first, decides between matches of one place and length."""

    detectors: tuple[PolicyDetector, ...] = ()
    patterns: tuple[PolicyPattern, ...] = ()
    words: tuple[PolicyWords, ...] = ()

    def entries(self) -> Iterator[PolicyDetector | PolicyPattern | PolicyWords]:
        """All of them, in order."""
        yield from self.detectors
        yield from self.patterns
        yield from self.words


DEFAULT = PolicyDocument(
    detectors=(
        PolicyDetector("private_key", "redact"),
        PolicyDetector("api_key", "redact"),
        PolicyDetector("card", "redact"),
        PolicyDetector("iban", "redact"),
        PolicyDetector("email", "flag"),
        PolicyDetector("phone", "flag"),
    )
)
FORMER: tuple[PolicyDocument, ...] = ()  # defaults that answers still go on under


def stored(document: PolicyDocument) -> bytes:
    """The document as it is stored and hashed."""
    return msgspec.json.encode(document)


def policy_hash(document: PolicyDocument) -> str:
    """SHA-256 of the document as it is stored, in hex."""
    return hashlib.sha256(stored(document)).hexdigest()


def document_of(data: bytes | str) -> PolicyDocument:
    """The document that this JSON is. Raises PolicyError."""
    try:
        return msgspec.json.decode(data, type=PolicyDocument)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"not a policy's document: {error}") from error


DEFAULT_POLICY = policy_hash(DEFAULT)
