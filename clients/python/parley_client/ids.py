"""Ids of requests and conversations: UUIDv7 (RFC 9562, section 5.7)."""

import secrets
import time
import uuid


def now_ms() -> int:
    """Unix time in milliseconds, as this machine has it."""
    return time.time_ns() // 1_000_000


def uuid7(now_ms: int) -> str:
    """A new UUIDv7 in canonical lower-case text, made at `now_ms` (Unix milliseconds)."""
    bits = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return str(uuid.UUID(int=bits | 0b10 << 62 | secrets.randbits(62)))
