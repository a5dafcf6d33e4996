"""uvicorn's WebSocket protocol (websockets-sansio) with the answers it lacks.

An oversized frame closes 4509 after a typed error, and text that is no UTF-8 reaches the session as a frame
to refuse instead of ending the connection.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode as WebSocketCloseCode
from websockets.frames import Frame

from server.protocol import codec
from server.protocol.codec import Subprotocol
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import Error

LINGER_SECONDS = 2.0
ABORT = "parley.abort"


class ParleyWebSocketProtocol(WebSocketsSansIOProtocol):
    """One socket. `scope["extensions"]["parley.abort"]` closes it although its peer reads nothing."""

    def handle_connect(self, event: Any) -> None:
        """A request to upgrade: hand the application its way to abort."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]  # pyright: ignore[reportTypedDictNotRequiredAccess, reportAssignmentType]
            extensions[ABORT] = self.abort

    def handle_text(self, event: Frame) -> None:
        """A text frame: what is no UTF-8 goes on as bytes, which no JSON session takes."""
        self.curr_msg_data_type = "text"
        self.frames = [bytes(event.data)]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """A whole message came in."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.curr_msg_data_type = "bytes"
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """The peer broke the framing; an oversized frame gets the protocol's own answer."""
        closed = self.conn.close_sent
        if closed is None or closed.code != WebSocketCloseCode.MESSAGE_TOO_BIG or self.close_sent:
            super().handle_parser_exception()
            return
        self.conn.data_to_send()  # drop the close frame that websockets made
        most = self.config.ws_max_size
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.TOO_BIG, "reason": ""})
        self.transport.write(_frames(self._too_big(most), CloseCode.TOO_BIG))
        self.close_sent = True
        # The rest of the frame is still coming in: closing now would reset the connection before the peer
        # has read why.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def abort(self, code: int) -> None:
        """Close a socket that takes no more data: best effort now, by force after a moment."""
        if not self.close_sent and not self.transport.is_closing():
            self.close_sent = True
            self.conn.send_close(code)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _too_big(self, most: int) -> tuple[bool, bytes]:
        problem = refusal(
            ErrorCode.BAD_MESSAGE, f"a frame may have {most} bytes: send less at once", limit=most
        )
        error = Error(problem.code, problem.message, problem.retry, limit=problem.limit)
        offered: list[str] = list(self.scope["subprotocols"])
        subprotocol = codec.choose_subprotocol(offered) or Subprotocol.JSON
        frame = codec.encode(error, subprotocol)
        return isinstance(frame, str), frame.encode() if isinstance(frame, str) else frame


def _frames(message: tuple[bool, bytes], code: int) -> bytes:
    """One data frame and a close frame as a server sends them: short, whole, unmasked."""
    text, data = message
    assert len(data) < 65536
    head = bytes([0x80 | (1 if text else 2)])
    size = bytes([len(data)]) if len(data) < 126 else bytes([126]) + len(data).to_bytes(2, "big")
    return head + size + data + bytes([0x88, 2]) + code.to_bytes(2, "big")
