"""Stream on which gateways report refusals: counts by the second, never a row for each request.

Bounded: a full stream takes nothing, and gateways keep counting in bounded memory (`summed_to_fit`). Anyone
who reaches Redis as a gateway does can write entries, so they are checked: a tenant, user or minute that
cannot be right is counted without that fact.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from billing.requests.refusal_counts import (
    EVERYBODY,
    MINUTE_MS,
    OTHERS,
    Counts,
    RefusalCount,
    RefusalKey,
    add,
    summed,
    summed_to_fit,
)
from core.ids import uuid7_ms
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read

ENTRIES_MAX = 128
ROWS_MAX = 1_000  # of an entry
WORD_CHARACTERS_MAX = 200  # an old id that is a name may be longer, and readers reject its entry
ENTRIES_AT_ONCE = 16  # so that one statement can name all tenants of a step
ENTRY_BYTES_MAX = 1 << 20
FIELD = b"c"
LATE_MS_MAX = 3 * 3_600_000
EARLY_MS_MAX = 2 * MINUTE_MS
WHY = re.compile(r"[a-z0-9_ ]{0,100}", re.ASCII)
OPAQUE = re.compile(r"u_[0-9a-f]{32}", re.ASCII)

Word = Annotated[str, Meta(max_length=WORD_CHARACTERS_MAX, pattern=r"^[^\x00]*$")]
Code = Annotated[str, Meta(pattern=r"^[a-z_]{1,40}$")]


class RefusalRow(msgspec.Struct, frozen=True, array_like=True):
    """One count on the stream."""

    tenant: Word
    minute_ms: Annotated[int, Meta(ge=0, le=1 << 52)]
    key: Word
    user: Word
    code: Code
    number: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    why: Annotated[str, Meta(pattern=r"^[a-z0-9_ ]{0,100}$")] = ""
    ids: Annotated[list[Annotated[str, Meta(max_length=36)]], Meta(max_length=10)] = []


Rows = Annotated[list[RefusalRow], Meta(max_length=ROWS_MAX)]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Rows)


def stream_key(installation: str) -> str:
    """Redis key of an installation's stream."""
    return f"{installation}:refused"


def encode(counts: Mapping[RefusalKey, RefusalCount]) -> bytes:
    """Encode the counts of one entry."""
    return _encoder.encode(
        [RefusalRow(*of, each.number, each.why, list(each.ids)) for of, each in counts.items()]
    )


class RefusalTally:
    """Refusals of one process that are not on the stream yet, in at most 2 * ROWS_MAX rows."""

    def __init__(self, redis: RedisClient, installation: str) -> None:
        self._redis = redis
        self._key = stream_key(installation)
        self._counts: Counts = {}

    @property
    def rows(self) -> int:
        """Number of counts in memory."""
        return len(self._counts)

    def add(self, whose: tuple[str, str, str], code: str, why: str, id: str, now_ms: int) -> None:
        """Add one refusal. `whose`: tenant, key, user."""
        tenant, key, user = whose
        user = user if len(user) <= WORD_CHARACTERS_MAX else ""
        of = RefusalKey(tenant, now_ms - now_ms % MINUTE_MS, key, user, code)
        add(self._counts, of, RefusalCount(1, why if WHY.fullmatch(why) else "", (id,) if id else ()))
        if len(self._counts) >= 2 * ROWS_MAX:
            self._counts = summed_to_fit(self._counts, ROWS_MAX)

    async def tell(self) -> None:
        """Write one entry, where there are counts and the stream is not full. Counts that were not written
        stay; where the outcome is unknown they are written again."""
        if not self._counts:
            return
        counts, self._counts = summed_to_fit(self._counts, ROWS_MAX), {}
        told = False
        try:
            if await self._redis.xlen(self._key) < ENTRIES_MAX:
                await self._redis.xadd(self._key, {FIELD: encode(counts)}, maxlen=2 * ENTRIES_MAX)
                told = True
        finally:
            if not told:
                self._counts = summed_to_fit(summed(counts, self._counts), ROWS_MAX)


async def entries_after(
    redis: RedisClient, installation: str, last: tuple[int, int]
) -> list[tuple[Any, bytes]]:
    """Read the next entries after a position: (id, data) in order, at most ENTRIES_AT_ONCE. A stream that
    ends before the position is a new one (Redis lost its data) and is read from its start."""
    key = stream_key(installation)
    try:
        newest = parsed((await redis.xinfo_stream(key))["last-generated-id"])
    except redis_errors.ResponseError:  # no stream yet
        return []
    after = f"({last[0]}-{last[1]}" if newest >= last else "-"
    found = await redis.xrange(key, min=after, count=ENTRIES_AT_ONCE)
    return [(parsed(id), fields.get(FIELD, b"")) for id, fields in found]


async def forget(redis: RedisClient, installation: str, last: tuple[int, int]) -> None:
    """Delete the entries up to this position, which are counted."""
    minid = f"{last[0]}-{last[1] + 1}"
    await redis.xtrim(stream_key(installation), minid=minid, approximate=False)


def parsed(id: Any) -> tuple[int, int]:
    """Parse an entry's id."""
    milliseconds, _, sequence = (id.decode() if isinstance(id, bytes) else str(id)).partition("-")
    return int(milliseconds), int(sequence)


def rows_of(data: bytes) -> list[RefusalRow] | Unreadable:
    """Decode an entry's rows; Unreadable where it is too long or malformed."""
    if len(data) > ENTRY_BYTES_MAX:
        return Unreadable("refusals", "too long")
    return read("refusals", _decoder.decode, data)


def storable_counts(
    rows: Iterable[RefusalRow], tenants: Collection[str], users: Collection[tuple[str, str]], now_ms: int
) -> Counts:
    """Turn rows into counts that can be stored: of existing tenants, of users who are known or have opaque
    ids, and of a minute near now. Wrong facts are replaced and the refusals still counted. Pure."""
    counts: Counts = {}
    for row in rows:
        minute = row.minute_ms - row.minute_ms % MINUTE_MS
        if not now_ms - LATE_MS_MAX <= minute <= now_ms + EARLY_MS_MAX:
            minute = now_ms - now_ms % MINUTE_MS
        known = row.tenant in tenants
        user = row.user if OPAQUE.fullmatch(row.user) or (row.tenant, row.user) in users else ""
        if not known or OTHERS in (row.key, row.user):
            key, user = OTHERS, OTHERS
        else:
            key = row.key
        ids = tuple(id for id in row.ids if uuid7_ms(id) is not None) if known else ()
        of = RefusalKey(row.tenant if known else EVERYBODY, minute, key, user, row.code)
        add(counts, of, RefusalCount(row.number, row.why, ids))
    return counts


def unchecked_users(rows: Iterable[RefusalRow]) -> dict[str, set[str]]:
    """User ids, by tenant, that may be names and have to be looked up."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.user and row.user != OTHERS and not OPAQUE.fullmatch(row.user):
            found.setdefault(row.tenant, set()).add(row.user)
    return found
