"""The connections of one gateway: which are open, which have a session, and until when they may stay."""

from typing import Protocol

from billing.api import Principal
from core.clock import monotonic
from core.network.addresses import rate_limit_address
from core.network.unidentified_sockets import UnidentifiedSockets
from core.tasks import KeptTasks
from server import instruments
from server.connection.session_store import SessionRecord
from server.protocol.codes import CloseCode, ErrorCode
from server.session.events import Event


class OpenSocket(Protocol):
    """A connection, as the gateway's other parts see it."""

    id: str
    address: str
    principal: Principal | None

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        ...

    def feed(self, event: Event) -> None:
        """Tell its session something."""
        ...

    def bytes_in_flight(self) -> int:
        """Sent and not acknowledged."""
        ...

    def put_out(self) -> None:
        """End it: it said no hello, and its place is another's."""
        ...


class ConnectionRegistry:
    """`unidentified`: those that have not said hello. `work`: what goes on although its connection is gone,
    since half of it helps nobody. Metrics look at its figures (instruments.GatewayGauges)."""

    def __init__(self, unidentified: UnidentifiedSockets) -> None:
        self.unidentified = unidentified
        self.work = KeptTasks()
        self._sockets: dict[str, OpenSocket] = {}
        self._sessions: dict[str, tuple[OpenSocket, SessionRecord]] = {}
        self._leave_by: float | None = None
        instruments.WATCHED.add(self)

    def enter(self, socket: OpenSocket) -> bool:
        """A socket is open; it has not said hello. False: there is no room for it."""
        self._sockets[socket.id] = socket
        return self.unidentified.enter(socket.id, rate_limit_address(socket.address), socket.put_out)

    def admit(self, socket: OpenSocket, record: SessionRecord) -> None:
        """Its hello was good, and it has this session."""
        self.unidentified.left(socket.id)
        self._sessions[socket.id] = socket, record

    def leave(self, socket: OpenSocket) -> None:
        """It is gone."""
        self._sockets.pop(socket.id, None)
        self.unidentified.left(socket.id)
        self._sessions.pop(socket.id, None)

    def find(self, connection: str) -> OpenSocket | None:
        """The connection of this id, whose hello may still be under way; None: it is not here."""
        return self._sockets.get(connection)

    def sockets(self) -> list[OpenSocket]:
        """All that are open."""
        return list(self._sockets.values())

    def sessions(self) -> list[tuple[OpenSocket, SessionRecord]]:
        """Those with a session."""
        return list(self._sessions.values())

    @property
    def busy(self) -> bool:
        """Whether anyone is here, or work of theirs is not done."""
        return bool(self._sockets or self.work)

    @property
    def draining(self) -> bool:
        """Whether this gateway stops."""
        return self._leave_by is not None

    def start_draining(self, seconds: float) -> None:
        """All have to leave within so many seconds."""
        self._leave_by = monotonic() + seconds

    def drain_left_ms(self) -> int:
        """How long connections may still stay."""
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
