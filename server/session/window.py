"""How much a client has not yet acknowledged, and so how much more may be sent. Pure.

An acknowledgement means applied by the application (docs/protocol.md, window). Counts are in log offsets and
in bytes: the UTF-8 bytes of text, 64 for any other logged message.
"""

from collections import deque

OTHER_BYTES = 64


class ConnectionWindow:
    """The unacknowledged bytes of all requests on one connection."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.unacked = 0

    def room(self) -> int:
        """Bytes that may be sent now, never negative."""
        return max(0, self.bytes_max - self.unacked)


class Window:
    """One request's window on one connection."""

    def __init__(self, connection: ConnectionWindow, events_max: int, bytes_max: int) -> None:
        self._connection = connection
        self.events_max = events_max
        self.bytes_max = bytes_max
        self.sent = 0
        self.acked = 0
        self.unacked = 0
        self._in_flight: deque[tuple[int, int]] = deque()

    def restart(self, o: int) -> None:
        """The client reads on from `o`: what was in flight before does not count any more."""
        self.forget()
        self.sent = self.acked = o

    def forget(self) -> None:
        """Give the connection its bytes back."""
        self._connection.unacked -= self.unacked
        self.unacked = 0
        self._in_flight.clear()

    def fits(self, events: int, size: int) -> bool:
        """Whether a message over so many offsets may be sent. With nothing in flight any single entry may."""
        if self.sent - self.acked + events > self.events_max:
            return False
        own = self.unacked + size <= self.bytes_max or (events == 1 and not self._in_flight)
        connection = self._connection
        shared = connection.unacked + size <= connection.bytes_max or (events == 1 and not connection.unacked)
        return own and shared

    def events_room(self) -> int:
        """Offsets that may be sent now."""
        return max(0, self.events_max - (self.sent - self.acked))

    def bytes_room(self) -> int:
        """Bytes that may be sent now."""
        return min(max(0, self.bytes_max - self.unacked), self._connection.room())

    def count(self, through: int, size: int) -> None:
        """A message through this offset was sent."""
        self.sent = through
        self.unacked += size
        self._connection.unacked += size
        self._in_flight.append((through, size))

    def ack(self, o: int) -> bool:
        """Applied through `o`. False: that was never sent. An old one changes nothing."""
        if o > self.sent:
            return False
        while self._in_flight and self._in_flight[0][0] <= o:
            size = self._in_flight.popleft()[1]
            self.unacked -= size
            self._connection.unacked -= size
        self.acked = max(self.acked, o)
        return True
