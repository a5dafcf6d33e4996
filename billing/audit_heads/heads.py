"""A head: how far one chain went at a time, and the hash there, as a line that is kept elsewhere. Pure."""

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
    """A tenant's books, or the record of what was done to it."""

    BOOKS = "books"
    CHANGES = "changes"


class ChainHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tenant` empty: the platform. `mac`: HMAC-SHA256 of all else, empty where there was no key."""

    time: str
    installation: str
    chain: Chain
    tenant: str
    sequence: int
    sha256: str
    mac: str = ""


_decoder = msgspec.json.Decoder(ChainHead)


def signed(head: ChainHead, key: bytes | None) -> ChainHead:
    """The head with its MAC; without one where there is no key."""
    return msgspec.structs.replace(head, mac=mac_of(head, key) if key else "")


def mac_of(head: ChainHead, key: bytes) -> str:
    """What its MAC must be."""
    facts = (PURPOSE, head.time, head.installation, head.chain, head.tenant, head.sequence, head.sha256)
    return hmac.new(key, msgspec.msgpack.encode(facts), hashlib.sha256).hexdigest()


def is_signed(head: ChainHead, key: bytes) -> bool:
    """Whether its MAC is this key's."""
    return hmac.compare_digest(head.mac.encode(), mac_of(head, key).encode())


def line_of(head: ChainHead) -> str:
    """One line of ASCII JSON, without its end."""
    return msgspec.json.encode(head).decode()


def read_line(line: str) -> ChainHead | None:
    """The head of a line, also behind what a log server puts before it; None: there is none, or one that no
    chain has."""
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
