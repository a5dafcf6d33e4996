"""Closes a WebSocket that was opened only so that its page learns why it may not come in: to a browser an
upgrade that is refused over HTTP is a network's fault, without a status or a word."""

from core.network.addresses import rate_limit_address
from core.network.unidentified_sockets import UnidentifiedSockets
from core.observability.telemetry import RepeatedWarning, logger
from server import instruments
from server.connection.websocket import SocketWriter
from server.protocol.codes import CloseCode

ORIGIN_CHARACTERS_MAX = 100

log = logger(__name__)
repeated = RepeatedWarning(log)


class TurnedAwaySocket:
    """A socket that waits for its peer's close frame, among those that have not said hello: it has no
    session, and whatever it says is dropped."""

    def __init__(self, unidentified: UnidentifiedSockets) -> None:
        self._unidentified = unidentified

    def received(self, frame: str | bytes) -> None:
        """See SocketListener."""

    def writable(self) -> None:
        """See SocketListener."""

    def lost(self, code: int | None) -> None:
        """See SocketListener."""
        self._unidentified.left(self)


def turn_away(
    writer: SocketWriter, unidentified: UnidentifiedSockets, address: str, origin: str, problem: str
) -> None:
    """Close a socket that was just opened by a page of an Origin that is not allowed."""
    instruments.UPGRADES_REFUSED.add(1, {"why": "origin"})
    shown = origin[:ORIGIN_CHARACTERS_MAX]
    repeated.warning("connection.origin_refused", origin=shown, address=address)
    listener = TurnedAwaySocket(unidentified)

    def put_out() -> None:
        writer.abort(CloseCode.FORBIDDEN)

    writer.close(CloseCode.FORBIDDEN, problem)
    if not unidentified.enter(listener, rate_limit_address(address), put_out):
        put_out()
    writer.hand_over(listener)
