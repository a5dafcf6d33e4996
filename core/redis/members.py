"""Reading what a key holds that others may have written: an entry that cannot be read is set aside alone.

It is skipped, counted, and logged by its key, never by its content. A key of another type than ours holds
nothing.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read

Value = TypeVar("Value")
Reply = TypeVar("Reply")

NAME_BYTES_MAX = 1_000  # of ours, with tenant and id
LAST_ID = "18446744073709551615-18446744073709551615"  # of a stream; nothing can stand behind it
WHOLE = re.compile(rb"-?[0-9]{1,18}")


def names(key: str, members: Iterable[bytes]) -> list[str]:
    """The members of a key that are names."""
    found = [read("name", _name, member) for member in members]
    good = [name for name in found if not isinstance(name, Unreadable)]
    set_aside(key, len(found) - len(good))
    return good


async def reading(key: str, reply: Awaitable[Reply], nothing: Reply) -> Reply:
    """The reply of a command that reads one key; `nothing` where that key is of another type."""
    try:
        return await reply
    except redis_errors.ResponseError as error:
        if not redis_errors.is_of_wrong_type(error):
            raise
    set_aside(key, 1)
    return nothing


async def entries_behind(
    redis: RedisClient, key: str, id: bytes | str, count: int, until: str = "+"
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of a stream behind an id, which may be the last that there is."""
    place = id if isinstance(id, str) else id.decode()
    return [] if place == LAST_ID else await redis.xrange(key, min=f"({place}", max=until, count=count)


async def made_anew(redis: RedisClient, key: str, command: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply of a command on one key; where that key is of another type it is deleted first."""
    try:
        return await command()
    except redis_errors.ResponseError as error:
        if not redis_errors.is_of_wrong_type(error):
            raise
    set_aside(key, 1)
    await redis.delete(key)
    return await command()


def readable(key: str, asked: Sequence[Value], replies: Iterable[Any]) -> Iterator[tuple[Value, Any]]:
    """Questions to a pipeline with `raise_on_error=False`, each with its reply. Passes over keys of another
    type; raises every other error."""
    odd = 0
    for value, reply in zip(asked, replies, strict=True):
        if isinstance(reply, redis_errors.ResponseError) and redis_errors.is_of_wrong_type(reply):
            odd += 1
        elif isinstance(reply, Exception):
            raise reply
        else:
            yield value, reply
    set_aside(key, odd)


def whole(value: bytes | None) -> int:
    """A stored whole number; 0 where there is none, or something else."""
    return int(value) if value is not None and WHOLE.fullmatch(value) else 0


def set_aside(key: str, count: int) -> None:
    """Count and log so many entries of a key that are none."""
    if count:
        from core.redis.entries_set_aside import tell  # loads telemetry, which most commands do without

        tell(key, count)


def _name(member: bytes) -> str:
    if len(member) > NAME_BYTES_MAX:
        raise ValueError("too long")
    return member.decode()
