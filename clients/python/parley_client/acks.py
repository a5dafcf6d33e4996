"""Decides when a client acknowledges (docs/protocol.md, "Window and acknowledgement"). Pure."""

from dataclasses import dataclass

from parley_client.answer import Frame, span

OTHER_BYTES = 64  # counted for a logged message without text


@dataclass
class _OpenAck:
    o: int
    events: int = 0
    bytes: int = 0


class Acks:
    """Applied offsets that came over one connection and are not acknowledged yet. An acknowledgement never
    goes beyond what its own connection was sent. `urgent`: half a window, or a `snap` or `end`."""

    def __init__(self, events: int, bytes: int, connection_bytes: int) -> None:
        self.urgent = False
        self._events = events
        self._bytes = bytes
        self._connection_bytes = connection_bytes
        self._open: dict[int, _OpenAck] = {}

    @property
    def pending(self) -> bool:
        """True where something waits to be acknowledged."""
        return bool(self._open)

    def note(self, frame: Frame) -> None:
        """Note a frame that is applied now, or was before."""
        first, last = span(frame)
        open = self._open.setdefault(frame["g"], _OpenAck(last))
        open.o = last
        open.events += last - first + 1
        open.bytes += len(frame["x"].encode()) if "x" in frame else OTHER_BYTES
        self.urgent = (
            self.urgent
            or frame["t"] in ("end", "snap")
            or open.events * 2 >= self._events
            or open.bytes * 2 >= self._bytes
            or sum(each.bytes for each in self._open.values()) * 2 >= self._connection_bytes
        )

    def drop(self, g: int) -> None:
        """Forget a `g` whose cursor is being moved."""
        self._open.pop(g, None)

    def take(self) -> list[tuple[int, int]]:
        """The vector for an `ack` or `pong`; afterwards nothing is pending."""
        vector = [(g, each.o) for g, each in self._open.items()]
        self._open.clear()
        self.urgent = False
        return vector
