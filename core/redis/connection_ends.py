"""The ends of a tenant's last connections, and why each ended: a short stream in Redis, of a day at most."""

import msgspec

from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.gateway_questions import ConnectionFacts
from core.redis.members import reading, set_aside
from core.redis.unreadable import Unreadable, read

ENDS_MAX = 200
KEEP_MS = 24 * 3_600_000
FIELD = "end"


class ConnectionEnd(ConnectionFacts, frozen=True, kw_only=True):
    """A connection that ended. `cause`: a word; `code`: of the close frame, 0 where none came."""

    ended_ms: int
    cause: str
    code: int


_end = msgspec.json.Decoder(ConnectionEnd)


async def note_end(redis: RedisClient, tenant: str, end: ConnectionEnd) -> None:
    """Add an end, in one round trip. One that is added twice, as the first answer was lost, is read once."""
    key = ends_key(tenant)
    add = ("XADD", key, "MAXLEN", "~", ENDS_MAX, "*", FIELD, msgspec.json.encode(end))
    added, _ = await redis.all_at_once([add, ("PEXPIRE", key, KEEP_MS)])
    if isinstance(added, redis_errors.ResponseError) and redis_errors.is_of_wrong_type(added):
        set_aside(key, 1)
        await redis.delete(key)
        await redis.all_at_once([add, ("PEXPIRE", key, KEEP_MS)])
    elif isinstance(added, Exception):
        raise added


async def last_ends(redis: RedisClient, tenant: str) -> list[ConnectionEnd]:
    """The last ends, the latest first."""
    key = ends_key(tenant)
    entries = await reading(key, redis.xrevrange(key, count=ENDS_MAX), [])
    found = [read("an end", _end.decode, fields.get(FIELD.encode(), b"")) for _, fields in entries]
    good = [each for each in found if not isinstance(each, Unreadable)]
    set_aside(key, len(found) - len(good))
    return list({each.connection: each for each in reversed(good)}.values())[::-1]


def ends_key(tenant: str) -> str:
    """The stream of a tenant."""
    return f"{{t:{tenant}}}closes"
