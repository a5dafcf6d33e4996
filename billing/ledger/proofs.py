"""Proofs of a line's source: a request's event, or a charge, with all its facts. Pure.

The proof stands in the line, which the ledger's chain covers. Facts that erasing removes (labels, and ids
that were names) are in it by a hash of their own, made with a random key that is erased with them: the kept
hash still proves the rest, and nobody can guess the words from it.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol
from zlib import crc32

import msgspec

OPAQUE_USER = re.compile(r"u_[0-9a-f]{32}", re.ASCII)
LABELS, LABELS_AND_USER = "l", "u"
KEPT_OF_WORDS = 1 + 64  # characters that stay when the words are erased; the rest is their key
KEY_BYTES = 16
WHOLE = KEPT_OF_WORDS + 2 * KEY_BYTES
SHA256_CHARACTERS = 64

_FACTS = (
    "accepted_ms",
    "claimed_ms",
    "claims",
    "code",
    "conversation_id",
    "cost_nano",
    "currency",
    "ended_ms",
    "event_sha256",
    "fingerprint",
    "first_token_ms",
    "input_cached",
    "input_uncached",
    "key_id",
    "model",
    "output_reasoning",
    "output_text",
    "policy_sha256",
    "pool",
    "posted_ms",
    "price_book_id",
    "price_version",
    "priority_class",
    "project_id",
    "reason",
    "recomputed_tokens",
    "request_id",
    "tenant_id",
    "trace_id",
)
EVENT_FACTS = (*_FACTS, "safety_verdicts", "phases", "user_id", "request_metadata")  # in the order of a proof
CHARGE_FACTS = (
    "created_ms",
    "currency",
    "end_ms",
    "id",
    "key_id",
    "kind",
    "model",
    "pool",
    "project_id",
    "source",
    "start_ms",
    "tenant_id",
    "user_id",
)


class ProvedWords(Protocol):
    """Columns of a row of usage_event that are proved in a form of their own."""

    @property
    def safety_verdicts(self) -> Mapping[str, Mapping[str, int]]:
        """Counts of safety verdicts by category and action."""
        ...

    @property
    def phases(self) -> Sequence[Sequence[str | int]]:
        """Kind and beginning of each phase."""
        ...

    @property
    def user_id(self) -> str:
        """The user's id."""
        ...

    @property
    def request_metadata(self) -> Mapping[str, Any]:
        """The client's labels."""
        ...

    @property
    def words_proof(self) -> str:
        """Result of `words_proof`; empty where there was nothing to erase."""
        ...


_packed = msgspec.msgpack.Encoder().encode
_words = json.JSONEncoder(sort_keys=True).encode
_event_facts = attrgetter(*_FACTS)
_charge_facts = attrgetter(*CHARGE_FACTS[:-1])


def words_proof(user_id: str, labels: Mapping[str, Any]) -> str:
    """Proof of the erasable facts of a request: a letter that says which facts it covers, a hash, and the
    hash's key. Empty where there are none."""
    opaque = not user_id or OPAQUE_USER.fullmatch(user_id)
    if opaque and not labels:
        return ""
    kind, key = LABELS if opaque else LABELS_AND_USER, os.urandom(KEY_BYTES).hex()
    return kind + _words_sha256(kind, key, user_id, labels) + key


def _words_sha256(kind: str, key: str, user_id: str, labels: Mapping[str, Any]) -> str:
    user = user_id if kind == LABELS_AND_USER else ""
    return hashlib.sha256(_words([key, user, labels]).encode()).hexdigest()


def event_proof(event: ProvedWords) -> str:
    """Proof of a request: SHA-256 over all its facts, then a check byte for each fact, by which a changed one
    is named. Erasing does not change the proof."""
    return _proof(_event_values(event))


def _event_values(event: ProvedWords) -> tuple[Any, ...]:
    kept = event.words_proof[:KEPT_OF_WORDS]
    structured = (_words(event.safety_verdicts), _words(event.phases))
    return (*_event_facts(event), *structured, "" if kept[:1] == LABELS_AND_USER else event.user_id, kept)


def charge_proof(charge: object) -> str:
    """Proof of a charge, made as for a request, without a user's id that may be erased."""
    return _proof(_charge_values(charge))


def _charge_values(charge: object) -> tuple[Any, ...]:
    user: str = getattr(charge, "user_id")  # noqa: B009  (rows and tables alike)
    return (*_charge_facts(charge), user if OPAQUE_USER.fullmatch(user) else "")


def _proof(values: tuple[Any, ...]) -> str:
    checks = bytes([crc32(_packed(value)) & 255 for value in values])
    return hashlib.sha256(_packed(values)).hexdigest() + checks.hex()


def changed_in_event(event: ProvedWords, proof: str) -> list[str]:
    """Names of the facts of a request that differ from its proof; empty where none does."""
    found = _changed(EVENT_FACTS, _event_values(event), proof)
    return sorted({*found, *_changed_words(event)})


def changed_in_charge(charge: object, proof: str) -> list[str]:
    """Names of the facts of a charge that differ from its proof; empty where none does."""
    return _changed(CHARGE_FACTS, _charge_values(charge), proof)


def erased(event: ProvedWords) -> bool:
    """True where the row says that its erasable facts are gone."""
    return len(event.words_proof) == KEPT_OF_WORDS


def _changed_words(event: ProvedWords) -> list[str]:
    """Check labels and a user's name against their own hash."""
    proof = event.words_proof
    if len(proof) == WHOLE:
        kind, sha256, key = proof[0], proof[1:KEPT_OF_WORDS], proof[KEPT_OF_WORDS:]
        same = sha256 == _words_sha256(kind, key, event.user_id, event.request_metadata)
        return (
            [] if same else ["user_id or request_metadata" if kind == LABELS_AND_USER else "request_metadata"]
        )
    return ["request_metadata"] if event.request_metadata or len(proof) not in (0, KEPT_OF_WORDS) else []


def _changed(names: tuple[str, ...], values: tuple[Any, ...], proof: str) -> list[str]:
    now = _proof(values)
    if now == proof:
        return []
    checks, then = bytes.fromhex(now[SHA256_CHARACTERS:]), proof[SHA256_CHARACTERS:]
    was = [then[at : at + 2] for at in range(0, len(then), 2)]
    found = [name for name, check, old in zip(names, checks, was, strict=False) if f"{check:02x}" != old]
    return found or ["something"]
