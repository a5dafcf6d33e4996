"""The connections of one gateway: all open ones, those with a session, and when they must leave."""

from typing import Protocol

from billing.api import Principal
from core.clock import monotonic
from core.network.addresses import rate_limit_address
from core.network.unidentified_sockets import UnidentifiedSockets
from core.redis.gateway_questions import ConnectionFacts
from core.tasks import TaskSet
from server import instruments
from server.connection.session_store import SessionRecord
from server.protocol.codes import CloseCode, ErrorCode
from server.session.events import Event
from server.session.stream import ReaderStanding


class OpenSocket(Protocol):
    """A connection, as the gateway's other parts see it."""

    id: str
    address: str
    origins: tuple[str, ...]  # of the page that opened it
    principal: Principal | None

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        ...

    def feed(self, event: Event) -> None:
        """Feed its session an event."""
        ...

    def bytes_in_flight(self) -> int:
        """Bytes sent and not acknowledged."""
        ...

    def facts(self) -> ConnectionFacts | None:
        """What is known of it, once its hello was good."""
        ...

    def standing(self, id: str) -> ReaderStanding | None:
        """How far it reads a request; None: it does not."""
        ...

    def put_out(self) -> None:
        """Close it to make room: it said no hello."""
        ...


class ConnectionRegistry:
    """`unidentified`: those that have not said hello. `work`: what goes on although its connection is gone,
    since half of it helps nobody. Metrics look at its figures (instruments.GatewayGauges)."""

    def __init__(self, unidentified: UnidentifiedSockets) -> None:
        self.unidentified = unidentified
        self.work = TaskSet()
        self._sockets: dict[str, OpenSocket] = {}
        self._sessions: dict[str, tuple[OpenSocket, SessionRecord]] = {}
        self._leave_by: float | None = None
        instruments.WATCHED.add(self)

    def enter(self, socket: OpenSocket) -> bool:
        """Add an open socket that has not said hello. False: there is no room for it."""
        self._sockets[socket.id] = socket
        return self.unidentified.enter(socket.id, rate_limit_address(socket.address), socket.put_out)

    def admit(self, socket: OpenSocket, record: SessionRecord) -> None:
        """Give a socket its session, after a good hello."""
        self.unidentified.left(socket.id)
        self._sessions[socket.id] = socket, record

    def leave(self, socket: OpenSocket) -> None:
        """Remove a socket that is gone."""
        self._sockets.pop(socket.id, None)
        self.unidentified.left(socket.id)
        self._sessions.pop(socket.id, None)

    def find(self, connection: str) -> OpenSocket | None:
        """The connection of this id, also one whose hello is pending; None: it is not here."""
        return self._sockets.get(connection)

    def sockets(self) -> list[OpenSocket]:
        """All open sockets."""
        return list(self._sockets.values())

    def sessions(self) -> list[tuple[OpenSocket, SessionRecord]]:
        """All sockets with a session, and their sessions."""
        return list(self._sessions.values())

    @property
    def busy(self) -> bool:
        """True while a connection is open or work of one is not done."""
        return bool(self._sockets or self.work)

    @property
    def draining(self) -> bool:
        """True while this gateway stops."""
        return self._leave_by is not None

    def start_draining(self, seconds: float) -> None:
        """Require all to leave within so many seconds."""
        self._leave_by = monotonic() + seconds

    def drain_left_ms(self) -> int:
        """Milliseconds that connections may still stay."""
        return 0 if self._leave_by is None else max(0, int((self._leave_by - monotonic()) * 1000))

    def connections_open(self) -> int:
        """See GatewayGauges."""
        return len(self._sockets)

    def sessions_open(self) -> int:
        """See GatewayGauges."""
        return len(self._sessions)

    def bytes_in_flight(self) -> int:
        """See GatewayGauges."""
        return sum(socket.bytes_in_flight() for socket, _ in self.sessions())

    def drain_remaining(self) -> int:
        """See GatewayGauges."""
        return len(self._sockets) if self.draining else 0
