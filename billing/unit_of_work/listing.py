"""Lists in pages. A cursor holds the position after the last thing and a digest of the question, so that it
continues only the list that it came from."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from sqlalchemy import Integer

from billing.unit_of_work.units import Look
from core.errors import bad_request
from core.operations import LISTED_DEFAULT, LISTED_MAX, ListedPage
from core.sql.selects import untyped

Limit = Annotated[int, Meta(ge=1, le=LISTED_MAX, description="How many at most.")]
CURSOR_CHARACTERS_MAX = 1000
Cursor = Annotated[str, Meta(max_length=CURSOR_CHARACTERS_MAX, description="`next` of the page before.")]
NO_CURSOR = "this is no cursor of this list: begin again without one"

Row = TypeVar("Row")
Item = TypeVar("Item")


class ListQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what lists are asked: a page's size, and behind which cursor (`next` of a page before)."""

    limit: Limit = LISTED_DEFAULT
    after: Annotated[
        str, Meta(max_length=CURSOR_CHARACTERS_MAX, description="`next` of the page before.")
    ] = ""


async def listed_page(
    look: Look,
    question: ListQuestion,
    statement: Any,
    key: Any,
    facts_of: Callable[[Any], Item],
    newest_first: bool = False,
) -> ListedPage[Item]:
    """A page of the rows that a statement selects, ordered by a unique column (`key`), each as `facts_of`
    shows it. Raises Refused for a cursor of another list."""
    digest = _digest(look, question)
    if question.after:
        position = _position_of(question.after, digest, int if isinstance(key.type, Integer) else str)
        statement = statement.where(key < position if newest_first else key > position)
    ordered = statement.order_by(key.desc() if newest_first else key).limit(question.limit + 1)
    async with look.db.session() as session:
        rows: Sequence[Any] = (await untyped(session).exec(ordered)).all()
    page = rows[: question.limit]
    more = len(rows) > question.limit
    return ListedPage(
        [facts_of(row) for row in page], cursor_of(digest, getattr(page[-1], key.key)) if more else None
    )


def cursor_of(digest: str, position: Any) -> str:
    """A cursor as its reader gets it. Pure."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((digest, position))).decode().rstrip("=")


def _position_of(cursor: str, digest: str, kind: type) -> Any:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        of, position = msgspec.msgpack.decode(base64.urlsafe_b64decode(padded), type=tuple[str, str | int])
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(NO_CURSOR, field="after") from error
    if of != digest or not isinstance(position, kind) or not _is_storable(position):
        raise bad_request(NO_CURSOR, field="after")
    return position


def _is_storable(position: str | int) -> bool:
    """False for what was never a row's: no column takes it."""
    return "\0" not in position if isinstance(position, str) else abs(position) < 1 << 63


def _digest(look: Look, question: ListQuestion) -> str:
    """What the list is of: the operation, the caller's tenant, and all that was asked but where in it."""
    facts = msgspec.to_builtins(question)
    same = {name: value for name, value in facts.items() if name not in ("after", "limit")}
    whole = msgspec.json.encode((look.operation.name, look.who.tenant, same), order="sorted")
    return hashlib.sha256(whole).hexdigest()[:16]
