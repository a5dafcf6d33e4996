"""Safety policies in a pool, by their hashes: how long they stand there, and which bytes are whose. Pure."""

import hashlib

from core.configuration.settings import Settings

MARGIN_SECONDS = 3600  # gateways store the policies that they enqueue under anew each minute


def keep_seconds(settings: Settings) -> int:
    """Seconds for which a stored policy stands: the longest deadline, and an hour."""
    return settings.deadline_bulk_ms // 1000 + MARGIN_SECONDS


def is_policy(hash: str, document: bytes) -> bool:
    """True for the bytes that this hash is of."""
    return hashlib.sha256(document).hexdigest() == hash
