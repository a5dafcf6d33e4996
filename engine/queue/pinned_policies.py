"""Safety policies in a pool, by their hashes: how long they stand there, and which bytes are whose. Pure."""

import hashlib

from core.configuration.settings import Settings
from engine.queue.types import PinnedPolicy
from engine.safety.documents import DEFAULT, FORMER, PolicyDocument, policy_hash, stored

MARGIN_SECONDS = 3600  # gateways store the policies that they enqueue under anew each minute
BUILT_IN = frozenset(policy_hash(document) for document in (DEFAULT, *FORMER))
"""Hashes of the policies that every worker has, and that stand nowhere."""


def pinned(document: PolicyDocument) -> PinnedPolicy:
    """The document's bytes with their hash."""
    return PinnedPolicy(policy_hash(document), stored(document))


def keep_seconds(settings: Settings) -> int:
    """Seconds for which a stored policy stands: the longest deadline, and an hour."""
    return settings.deadline_bulk_ms // 1000 + MARGIN_SECONDS


def is_policy(hash: str, document: bytes) -> bool:
    """True for the bytes that this hash is of."""
    return hashlib.sha256(document).hexdigest() == hash
