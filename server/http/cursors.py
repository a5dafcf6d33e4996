"""Cursors of lists, as text that a client gives back, and ids in paths. Pure.

A stranger may write anything in either: one that is not ours is refused before SQL sees it.
"""

import base64
import binascii

from core.errors import Refused
from core.ids import uuid7_ms
from server.http.replies import bad_request

CURSOR_CHARACTERS_MAX = 200
INTEGER_DIGITS_MAX = 18  # fits any database's 64 bits


def pack_time(at_ms: int, id: str) -> str:
    """The cursor after the entry last used at this time."""
    return _pack(f"{at_ms}:{id}")


def pack_position(position: int) -> str:
    """The cursor after a message."""
    return _pack(str(position))


def read_time(cursor: str | None) -> tuple[int, str] | None:
    """The time and id in a cursor of `pack_time`, None for none. Raises Refused (bad_request) for others."""
    if not cursor:
        return None
    at, _, id = _unpack(cursor).partition(":")
    if uuid7_ms(id) is None:
        raise _foreign()
    return _integer(at), id


def read_position(cursor: str | None) -> int:
    """The position in a cursor of `pack_position`, 0 for none. Raises Refused (bad_request) for others."""
    return _integer(_unpack(cursor)) if cursor else 0


def _pack(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _unpack(cursor: str) -> str:
    if len(cursor) > CURSOR_CHARACTERS_MAX or not cursor.isascii():
        raise _foreign()
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise _foreign() from None


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS_MAX or not (digits.isascii() and digits.isdigit()):
        raise _foreign()
    return int(digits)


def _foreign() -> Refused:
    return bad_request("cursor: use the one that the page before gave")
