"""A head: the end of one chain at a time, with its hash, as a line to keep elsewhere. Pure."""

import hashlib
import hmac
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from core.redis.unreadable import Unreadable, read

PURPOSE = "parley head v1"
LINE_CHARACTERS_MAX = 4_096
SEQUENCE_MAX = (1 << 63) - 1


class Chain(StrEnum):
    """A tenant's books, or its audit log."""

    BOOKS = "books"
    CHANGES = "changes"


class ChainHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tenant` empty: the platform. `mac`: HMAC-SHA256 of all other fields, empty where there was no key."""

    time: str
    installation: str
    chain: Chain
    tenant: str
    sequence: int
    sha256: str
    mac: str = ""


_decoder = msgspec.json.Decoder(ChainHead)


def signed(head: ChainHead, key: bytes | None) -> ChainHead:
    """The head with its MAC, or without one where there is no key."""
    return msgspec.structs.replace(head, mac=mac_of(head, key) if key else "")


def mac_of(head: ChainHead, key: bytes) -> str:
    """Compute the MAC of a head."""
    facts = (PURPOSE, head.time, head.installation, head.chain, head.tenant, head.sequence, head.sha256)
    return hmac.new(key, msgspec.msgpack.encode(facts), hashlib.sha256).hexdigest()


def is_signed(head: ChainHead, key: bytes) -> bool:
    """Check a head's MAC against this key."""
    return hmac.compare_digest(head.mac.encode(), mac_of(head, key).encode())


def line_of(head: ChainHead) -> str:
    """Encode a head as one line of ASCII JSON, without its end."""
    return msgspec.json.encode(head).decode()


def read_line(line: str) -> ChainHead | None:
    """Decode the head in a line, also behind a log server's prefix; None: there is none, or one that no chain
    has."""
    at = line.find("{")
    if at < 0 or len(line) > LINE_CHARACTERS_MAX:
        return None
    head = read("head", _decoder.decode, line[at:].strip())
    if isinstance(head, Unreadable) or not 0 < head.sequence <= SEQUENCE_MAX or "\0" in head.tenant:
        return None
    return head


def iso(unix_ms: int) -> str:
    """A head's time: UTC, to the second."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
