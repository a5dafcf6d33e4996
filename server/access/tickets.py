"""Tickets: what lets one browser open one WebSocket as one user, for a while. Pure.

A ticket is sealed content: nobody who writes Redis can make one, and Redis only ever says that one is spent.
"""

import msgspec

from core.signing.sealed import SealedContent

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


_tickets = SealedContent(Ticket, PURPOSE, lambda ticket: ticket.opens_by_ms, PREFIX)
seal, unseal = _tickets.seal, _tickets.unseal
