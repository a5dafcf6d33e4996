"""Tickets, by which one browser opens one WebSocket as one user, for a while. Pure.

A ticket is sealed content: nobody who can write Redis can forge one, and Redis only records that one is
spent.
"""

import msgspec

from core.signing.sealed import SealedContent

PURPOSE = b"parley ticket v3"
PREFIX = "pt_"
OPENS_SECONDS_MAX = 60
LIFETIME_SECONDS_MAX = 3600


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Content of a ticket. `user` and `scopes` are the most that its bearer gets of the key. `session`: the
    browser session that asked for it, with which it ends. It opens a connection until `opens_by_ms`, once;
    that connection ends at `ends_ms`. Both are Unix ms."""

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
