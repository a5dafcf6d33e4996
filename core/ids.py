"""Ids made by clients and by us: UUIDv7 (RFC 9562, section 5.7)."""

import re
import secrets
import uuid

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def uuid7(now_ms: int) -> str:
    """A new UUIDv7 in canonical lower-case text, made at `now_ms` (Unix milliseconds)."""
    bits = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return str(uuid.UUID(int=bits | 0b10 << 62 | secrets.randbits(62)))


def uuid7_ms(text: str) -> int | None:
    """The Unix milliseconds inside a canonical UUIDv7, or None where `text` is not one."""
    return int(text[:8] + text[9:13], 16) if UUID7.fullmatch(text) else None
