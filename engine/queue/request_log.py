"""Reads a request's log, as far as readers may see it, by offset. Never writes."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

import msgspec

from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable, read
from engine.queue import redis_keys
from engine.queue.script_calls import PackedEntry
from engine.request import Entry, EntryKind

TEXT_PAGE_ENTRIES = 500
END_ENTRY_BYTES = 64
COUNT_END = 1 << 53  # from here on JSON parsers confuse whole numbers


class DamagedLogError(Exception):
    """Raised for an entry of a log that cannot be read. The message has its offset, and no content."""


class LogReader:
    """Reads the logs of one pool."""

    def __init__(self, redis: RedisClient, pool: str) -> None:
        self._redis = redis
        self._pool = pool

    async def read(
        self,
        tenant: str,
        id: str,
        after: int,
        entries_max: int,
        bytes_max: int | None = None,
        epoch: int | None = None,
    ) -> list[Entry]:
        """The entries after offset `after`, in order: at most `entries_max`, and only as many as keep their
        text within `bytes_max` (a first one larger than that comes alone). Nothing where the log is not in
        this `epoch` any more: it has begun again. Raises DamagedLogError."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.xrange(redis_keys.log(self._pool, tenant, id), min=f"{after + 1}-0", max="+", count=entries_max)
        if epoch is not None:
            # Asked after the entries: epochs only rise, so what it says held when they were read.
            pipe.hget(redis_keys.record(self._pool, tenant, id), "epoch")
        raw, *current = await pipe.execute(raise_on_error=False)
        if any(_is_of_wrong_type(found) or (found and found != b"%d" % (epoch or 0)) for found in current):
            return []
        if _is_of_wrong_type(raw):
            raise DamagedLogError("the log is no stream")
        return list(_within(bytes_max, (entry_of(*item) for item in raw)))

    async def text_through(self, tenant: str, id: str, o: int) -> str:
        """The visible text of offsets 1 through `o`, retractions obeyed. Raises DamagedLogError."""
        text = ""
        async for entries in self.pages_through(tenant, id, o):
            text = visible_text(entries, text)
        return text

    async def pages_through(self, tenant: str, id: str, o: int) -> AsyncGenerator[list[Entry]]:
        """The entries of offsets 1 through `o`, in order, a page at a time. Raises DamagedLogError."""
        after = 0
        while after < o:
            entries = await self.read(tenant, id, after, min(TEXT_PAGE_ENTRIES, o - after))
            if not entries:
                return
            yield entries
            after = entries[-1].o


def _is_of_wrong_type(reply: object) -> bool:
    """Raises what is another error."""
    if isinstance(reply, redis_errors.ResponseError) and redis_errors.is_of_wrong_type(reply):
        return True
    if isinstance(reply, Exception):
        raise reply
    return False


def visible_text(entries: list[Entry], before: str = "") -> str:
    """`before` with these entries applied. A retract cuts at its position."""
    pieces = [before]
    for entry in entries:
        if entry.k is EntryKind.RETRACT:
            pieces = ["".join(pieces)[: entry.p]]
        elif entry.k is EntryKind.TEXT:
            pieces.append(entry.x)
    return "".join(pieces)


class _Verdict(msgspec.Struct):
    category: str
    action: str


_verdict = msgspec.json.Decoder(_Verdict)


def verdicts_in(entries: Sequence[Entry]) -> Counter[tuple[str, str]]:
    """How many of these entries are a safety policy's, by category and action; those that cannot be read are
    left out."""
    flags = (read("verdict", _verdict.decode, entry.v) for entry in entries if entry.k is EntryKind.FLAGGED)
    return Counter((each.category, each.action) for each in flags if not isinstance(each, Unreadable))


def entry_of(stream_id: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    """One stream entry; absent fields have their defaults. Raises DamagedLogError."""
    offset = int(stream_id.partition(b"-")[0])
    found = read("entry", lambda entry: _entry(offset, entry), fields)
    if isinstance(found, Unreadable):
        raise DamagedLogError(f"the entry at offset {offset} cannot be read ({found.why})")
    return found


def _entry(offset: int, fields: Mapping[bytes, bytes]) -> Entry:
    return Entry(
        o=offset,
        k=EntryKind(fields[b"k"].decode()) if b"k" in fields else EntryKind.TEXT,
        x=fields.get(b"x", b"").decode(),
        p=_count(fields.get(b"p", 0)),
        r=_count(fields.get(b"r", 0)),
        i=_count(fields.get(b"i", 0)),
        v=fields.get(b"v", b""),
    )


def _count(written: bytes | int) -> int:
    """A number that every client can represent. Raises ValueError."""
    if not 0 <= (number := int(written)) < COUNT_END:
        raise ValueError("out of range")
    return number


def pack_entry(entry: Entry) -> PackedEntry:
    """The entry in the scripts' form; its offset follows from its place."""
    return entry.k.value, entry.x, entry.p, entry.r, entry.i, entry.v.decode()


def unpack_entries(head: int, packed: Sequence[PackedEntry]) -> list[Entry]:
    """Entries from the form in which scripts publish them; the last one is at `head`."""
    first = head - len(packed) + 1
    return [
        Entry(first + at, EntryKind(k), x, _count(p), _count(r), _count(i), v.encode())
        for at, (k, x, p, r, i, v) in enumerate(packed)
    ]


def _within(bytes_max: int | None, entries: Iterator[Entry]) -> Iterator[Entry]:
    used = 0
    for entry in entries:
        size = len(entry.x.encode()) if entry.k is EntryKind.TEXT else END_ENTRY_BYTES
        if bytes_max is not None and used and used + size > bytes_max:
            return
        used += size
        yield entry


def text_pieces(text: str, bytes_max: int) -> list[str]:
    """`text` in pieces of at most `bytes_max` UTF-8 bytes, cut between code points."""
    if len(text) * 4 <= bytes_max:
        return [text] if text else []
    encoded, pieces = text.encode(), list[str]()
    while encoded:
        piece = encoded[:bytes_max].decode(errors="ignore")
        pieces.append(piece)
        encoded = encoded[len(piece.encode()) :]
    return pieces
