"""Unacknowledged part of what a client was sent, and room for more. Pure.

An acknowledgement means applied by the application (docs/protocol.md, "Window and acknowledgement"). Counts
are in log offsets and in bytes: the UTF-8 bytes of text, 64 for any other logged message.
"""

from collections import deque

OTHER_BYTES = 64


class ConnectionWindow:
    """Unacknowledged bytes of all requests on one connection, and the number of requests that share it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.unacked = 0
        self.requests = 0

    def share(self) -> int:
        """Bytes that one request may have unacknowledged, so that none takes the others' room."""
        return self.bytes_max // max(1, self.requests)

    def room(self) -> int:
        """Bytes that may be sent now, never negative."""
        return max(0, self.bytes_max - self.unacked)


class RequestWindow:
    """One request's window on one connection."""

    def __init__(self, connection: ConnectionWindow, events_max: int, bytes_max: int) -> None:
        self._connection = connection
        self.events_max = events_max
        self.bytes_max = bytes_max
        self.sent = 0
        self.sent_most = 0
        self.acked = 0
        self.unacked = 0
        self.tokens_acked = 0
        self._in_flight: deque[tuple[int, int, int]] = deque()

    def restart(self, o: int) -> None:
        """Read on from `o`: what was in flight before does not count any more."""
        self.forget()
        self.sent = self.acked = o
        self.sent_most = max(self.sent_most, o)

    def forget(self) -> None:
        """Give the request's bytes back to the connection."""
        self._connection.unacked -= self.unacked
        self.unacked = 0
        self._in_flight.clear()

    def fits(self, events: int, size: int) -> bool:
        """True where a message over so many offsets may be sent.

        With nothing of the request in flight any one entry may: no other request can hold it off for ever.
        """
        if self.sent - self.acked + events > self.events_max:
            return False
        if events == 1 and not self._in_flight:
            return True
        connection = self._connection
        own = self.unacked + size <= min(self.bytes_max, connection.share())
        return own and connection.unacked + size <= connection.bytes_max

    def events_room(self) -> int:
        """Offsets that may be sent now."""
        return max(0, self.events_max - (self.sent - self.acked))

    def bytes_room(self) -> int:
        """Bytes that may be sent now."""
        own = min(self.bytes_max, self._connection.share()) - self.unacked
        return min(max(0, own), self._connection.room())

    def count(self, through: int, size: int, tokens: int = 0) -> None:
        """Count a sent message that reaches this offset. `tokens`: of the answer up to it, 0: unchanged."""
        self.sent = through
        self.sent_most = max(self.sent_most, through)
        self.unacked += size
        self._connection.unacked += size
        self._in_flight.append((through, size, tokens))

    def ack(self, o: int) -> bool:
        """Note that everything through `o` is applied. False: never sent. An old offset changes nothing."""
        if o > self.sent:
            return False
        while self._in_flight and self._in_flight[0][0] <= o:
            _, size, tokens = self._in_flight.popleft()
            self.unacked -= size
            self.tokens_acked = max(self.tokens_acked, tokens)
            self._connection.unacked -= size
        self.acked = max(self.acked, o)
        return True
