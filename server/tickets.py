"""Tickets: what lets one browser open one WebSocket as one user, for a while. Pure.

A ticket is sealed content: nobody who writes Redis can make one, and Redis only ever says that one is spent.
"""

import msgspec

from core import signed
from core.signed import Keyring

PURPOSE = b"parley ticket v3"
PREFIX = "pt_"
OPENS_SECONDS_MAX = 60
LASTS_SECONDS_MAX = 3600


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """`user` and `scopes` are all that its bearer may be and do with the key. `session`: the browser's that
    asked for it, which it ends with. It opens a connection until `opens_by_ms`, once; that connection ends at
    `ends_ms`. Both are Unix ms."""

    id: str
    tenant: str
    key: str
    session: str
    user: str
    scopes: tuple[str, ...]
    opens_by_ms: int
    ends_ms: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Ticket)


def seal(ticket: Ticket, keyring: Keyring) -> str:
    """The ticket as the browser gets it."""
    return PREFIX + signed.seal(_encoder.encode(ticket), PURPOSE, keyring)


def unseal(text: str, keyring: Keyring, now_ms: int) -> Ticket | None:
    """The ticket in a text; None for one that is forged, damaged, or too old to open a connection."""
    if not text.startswith(PREFIX):
        return None
    body = signed.unseal(text.removeprefix(PREFIX), PURPOSE, keyring)
    ticket = _decoder.decode(body) if body is not None else None
    return ticket if ticket is not None and ticket.opens_by_ms > now_ms else None
