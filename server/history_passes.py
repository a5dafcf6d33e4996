"""History passes: what lets a page of another site read one user's conversations for a while. Pure.

Sealed content like a ticket's. A pass opens no connection, writes nothing, and makes no other proof.
"""

import msgspec

from core import signed
from core.signed import Keyring

PURPOSE = b"parley history v1"
PREFIX = "ph_"
LASTS_SECONDS = 600


class HistoryPass(msgspec.Struct, frozen=True, array_like=True):
    """Whose history its bearer reads. `session`: the browser's that asked for it. `ends_ms` is Unix ms."""

    tenant: str
    key: str
    session: str
    user: str
    ends_ms: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(HistoryPass)


def seal(found: HistoryPass, keyring: Keyring) -> str:
    """The pass as the page gets it."""
    return PREFIX + signed.seal(_encoder.encode(found), PURPOSE, keyring)


def unseal(text: str, keyring: Keyring, now_ms: int) -> HistoryPass | None:
    """The pass in a text; None for one that is forged, damaged or over."""
    if not text.startswith(PREFIX):
        return None
    body = signed.unseal(text.removeprefix(PREFIX), PURPOSE, keyring)
    found = _decoder.decode(body) if body is not None else None
    return found if found is not None and found.ends_ms > now_ms else None
