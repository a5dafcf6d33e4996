"""Lists in pages. A cursor holds the position after the last thing and a digest of the question, so that it
continues only the list that it came from."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta
from sqlalchemy import Integer, tuple_

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
    key: Any | tuple[Any, ...],
    facts_of: Callable[[Any], Item],
    newest_first: bool = False,
) -> ListedPage[Item]:
    """A page of the rows that a statement selects, ordered by a unique column (`key`) or by several that are
    unique together, each as `facts_of` shows it. Raises Refused for a cursor of another list."""
    digest = _digest(look, question)
    keys = cast(tuple[Any, ...], key if isinstance(key, tuple) else (key,))
    if question.after:
        position = _position_of(question.after, digest, keys)
        place = keys[0] if len(keys) == 1 else tuple_(*keys)
        statement = statement.where(place < position if newest_first else place > position)
    ordered = statement.order_by(*(each.desc() if newest_first else each for each in keys))
    async with look.db.session() as session:
        rows: Sequence[Any] = (await untyped(session).exec(ordered.limit(question.limit + 1))).all()
    page = rows[: question.limit]
    more = len(rows) > question.limit
    return ListedPage(
        [facts_of(row) for row in page],
        _cursor_of(digest, *(getattr(page[-1], each.key) for each in keys)) if more else None,
    )


def _cursor_of(*facts: str | int) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(facts)).decode().rstrip("=")


def _position_of(cursor: str, digest: str, keys: Sequence[Any]) -> Any:
    """The values of the last row's keys, or of its only one."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        of, *position = msgspec.msgpack.decode(base64.urlsafe_b64decode(padded), type=list[str | int])
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(NO_CURSOR, field="after") from error
    kinds = [int if isinstance(each.type, Integer) else str for each in keys]
    fits = len(position) == len(kinds) and all(map(isinstance, position, kinds))
    if of != digest or not fits or not all(map(_is_storable, position)):
        raise bad_request(NO_CURSOR, field="after")
    return position[0] if len(position) == 1 else tuple(position)


def _is_storable(position: str | int) -> bool:
    """False for what was never a row's: no column takes it."""
    return "\0" not in position if isinstance(position, str) else abs(position) < 1 << 63


def _digest(look: Look, question: ListQuestion) -> str:
    """What the list is of: the operation, the caller's tenant, and all that was asked but where in it."""
    facts = msgspec.to_builtins(question)
    same = {name: value for name, value in facts.items() if name not in ("after", "limit")}
    whole = msgspec.json.encode((look.operation.name, look.who.tenant, same), order="sorted")
    return hashlib.sha256(whole).hexdigest()[:16]
