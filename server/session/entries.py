"""Makes client messages of a log's entries that are no text. Workers wrote them: trust nothing. Pure."""

from typing import Any

import msgspec

from engine.api import Entry, EntryKind
from server.protocol.flags import flag_of
from server.protocol.messages import End, EndPayload, Event, Retract

_end = msgspec.json.Decoder(EndPayload)
_any = msgspec.json.Decoder(dict[str, Any])
_msgpack = msgspec.msgpack.Encoder()


def message_of(g: int, entry: Entry) -> Event | Retract | End:
    """The entry's message, encodable in either subprotocol. Raises one of core.redis.unreadable.ERRORS."""
    message = _message_of(g, entry)
    _msgpack.encode(message)  # JSON has whole numbers that MessagePack has not
    return message


def _message_of(g: int, entry: Entry) -> Event | Retract | End:
    match entry.k:
        case EntryKind.END:
            end = _end.decode(entry.v)
            return End(g, entry.o, end.reason, end.usage, end.cost, end.timing, end.h, end.code, end.safety)
        case EntryKind.RETRACT:
            value = _any.decode(entry.v)
            category, policy = str(value.get("category", "")), str(value.get("policy", ""))
            return Retract(g, entry.o, entry.p, category, policy)
        case EntryKind.FLAGGED:
            return Event(g, entry.k.value, entry.o, msgspec.to_builtins(flag_of(entry.v)))
        case _:
            return Event(g, entry.k.value, entry.o, _any.decode(entry.v) if entry.v else None)
