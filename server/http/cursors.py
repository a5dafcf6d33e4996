"""Where a page of a list ends, as text that a client gives back, and the ids in paths. Pure.

Both are the stranger's to choose: what is not ours is refused before SQL sees it.
"""

import base64
import binascii

from core.errors import Refused
from core.ids import uuid7_ms
from server.http.replies import bad_request

CURSOR_CHARACTERS_MAX = 200
INTEGER_DIGITS_MAX = 18  # what any database's 64 bits hold


def pack_time(at_ms: int, id: str) -> str:
    """The cursor behind what was last used then."""
    return _pack(f"{at_ms}:{id}")


def pack_position(position: int) -> str:
    """The cursor behind a message."""
    return _pack(str(position))


def read_time(cursor: str | None) -> tuple[int, str] | None:
    """What `pack_time` packed, None for no cursor. Raises Refused (bad_request) for anything else."""
    if not cursor:
        return None
    at, _, id = _unpack(cursor).partition(":")
    if uuid7_ms(id) is None:
        raise _foreign()
    return _integer(at), id


def read_position(cursor: str | None) -> int:
    """What `pack_position` packed, 0 for no cursor. Raises Refused (bad_request) for anything else."""
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
