"""uvicorn's WebSocket protocol (websockets-sansio), handed over to a session after its upgrade.

A handed-over socket costs no task: its frames go straight to a listener, and a writer is told when the peer
takes no more. It also handles cases that uvicorn lacks: an oversized frame closes 4509 after a typed error,
and text that is no UTF-8 reaches the session as a frame to refuse instead of ending the connection.
"""

import asyncio
from typing import Any, Protocol, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode as WebSocketCloseCode
from websockets.frames import Frame
from websockets.protocol import State

from server.connection.read_pace import ReadPace
from server.protocol import codec
from server.protocol.codec import Subprotocol
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import Error

LINGER_SECONDS = 2.0
FRAMES_A_TURN = 32
PIECE_BYTES = 1024
UNSENT_BYTES_MAX = 256 * 1024
WIRE = "parley.wire"


class SocketListener(Protocol):
    """Receiver of a socket's frames after the hand-over."""

    def received(self, frame: str | bytes) -> None:
        """Take a whole message. Text that is no UTF-8 comes as bytes."""
        ...

    def writable(self) -> None:
        """Go on writing: the peer takes data again."""
        ...

    def lost(self, code: int | None) -> None:
        """Note that the socket is gone, or closing. May be called more than once."""
        ...


class SocketWriter(Protocol):
    """A listener's operations on its socket."""

    @property
    def full(self) -> bool:
        """True where the peer has not taken enough of what was written: write no more until `writable`."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes written that the kernel has not taken yet."""
        ...

    def write(self, payload: bytes, text: bool) -> None:
        """Send one message; nothing where the socket is closing."""
        ...

    def hold(self) -> None:
        """Stop reading."""
        ...

    def release(self) -> None:
        """Read again."""
        ...

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame; `reason` has 123 bytes at most."""
        ...

    def abort(self, code: int) -> None:
        """Close although the peer reads nothing."""
        ...

    def hand_over(self, listener: SocketListener) -> None:
        """Pass everything to the listener, what has come already first."""
        ...


class _ListenerQueue:
    """Replaces uvicorn's queue for the application, and passes the socket's end on."""

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener

    def put_nowait(self, event: dict[str, Any]) -> None:
        """Pass on an event for the application; messages do not come this way."""
        self._listener.lost(event.get("code"))


class ParleyWebSocketProtocol(WebSocketsSansIOProtocol):
    """One socket. After `accept` the application finds it, a SocketWriter, in `scope["extensions"][WIRE]`."""

    listener: SocketListener | None = None
    full = False
    _held = False
    _reading_on = False
    _frames = 0
    _slow: asyncio.TimerHandle | None = None

    def __init__(self, frames_per_second: float, **options: Any) -> None:
        super().__init__(**options)
        self._unread = bytearray()
        self._pace = ReadPace(frames_per_second)

    def handle_connect(self, event: Any) -> None:
        """Handle a request to upgrade: hand the application its writer."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            extensions: dict[str, Any] = self.scope["extensions"]  # pyright: ignore[reportTypedDictNotRequiredAccess, reportAssignmentType]
            extensions[WIRE] = self

    async def run_asgi(self) -> None:
        """Run the application; the socket outlives it where it was handed over."""
        try:
            await self.app(self.scope, self.receive, self.send)
        except ClientDisconnected:
            pass
        except Exception:
            self.logger.exception("connection.upgrade_failed")
            self.send_500_response()
        else:
            if not self.handshake_complete:
                self.send_500_response()
        if self.listener is None and self.close_timer is None:
            self.transport.close()

    def hand_over(self, listener: SocketListener) -> None:
        """See SocketWriter."""
        self.listener = listener
        waiting = self.queue
        self.queue = cast("asyncio.Queue[Any]", _ListenerQueue(listener))
        while not waiting.empty():
            event = waiting.get_nowait()
            if event["type"] == "websocket.disconnect":
                listener.lost(event["code"])
            elif event["type"] == "websocket.receive":
                text = event.get("text")
                listener.received(text if text is not None else cast("bytes", event.get("bytes")))
        self.release()
        # An idle socket is cheap: nothing of its upgrade is kept.
        self.request = self.response = cast("Any", None)
        self.scope = cast("Any", {"subprotocols": self.scope["subprotocols"]})

    # The socket's side

    def pause_writing(self) -> None:
        """Note that the peer does not take what was written."""
        super().pause_writing()
        self.full = True

    def resume_writing(self) -> None:
        """Note that the peer takes data again."""
        super().resume_writing()
        self.full = False
        if self.listener is not None:
            self.listener.writable()
            self._read_on()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and parse them in small pieces, so many frames a turn of the loop: one peer's flood
        must not keep the others waiting."""
        self._unread += data
        self._read_on()

    def _read_on(self) -> None:
        self._reading_on = False
        self._frames = 0
        unread = len(self._unread)
        while self._unread and self._frames < FRAMES_A_TURN and self._takes_more():
            piece = bytes(self._unread[:PIECE_BYTES])
            del self._unread[:PIECE_BYTES]
            super().data_received(piece)
        self._pace.took(self._frames, unread - len(self._unread))
        if self._unread and not self._reading_on and self._takes_more():
            self._reading_on = True
            self.loop.call_soon(self._read_on)
        self._pace_reading()

    def _takes_more(self) -> bool:
        """False while the listener holds, or while answers to control frames pile up unread."""
        if self.transport.is_closing() or self.conn.parser_exc is not None:
            self._unread.clear()
        upgrading = self.handshake_initiated and self.listener is None and not self.close_sent
        return not (self._held or upgrading or self._slowed()) and self.unsent < UNSENT_BYTES_MAX

    def _slowed(self) -> bool:
        """True while the peer has sent more than its pace allows."""
        seconds = self._pace.behind_seconds()
        if seconds and self._slow is None:
            self._slow = self.loop.call_later(seconds, self._read_on_in_time)
        return seconds > 0

    def _read_on_in_time(self) -> None:
        self._slow = None
        self._read_on()

    def _pace_reading(self) -> None:
        paused = self._held or bool(self._unread)
        if paused == self.read_paused or self.transport.is_closing():
            return
        self.read_paused = paused
        (self.transport.pause_reading if paused else self.transport.resume_reading)()

    def handle_events(self) -> None:
        """Count the frames that the last piece completed."""
        self._frames += len(self.conn.events)
        super().handle_events()

    def handle_text(self, event: Frame) -> None:
        """Take a text frame; one that is no UTF-8 goes on as bytes, which no JSON session takes."""
        self.curr_msg_data_type = "text"
        self.frames = [bytes(event.data)]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Pass on a whole message."""
        data: str | bytes = b"".join(self.frames)
        if self.curr_msg_data_type == "text":
            try:
                data = data.decode()
            except UnicodeDecodeError:
                self.curr_msg_data_type = "bytes"
        if self.listener is None:
            super().send_receive_event_to_app()
            return
        self.frames = []
        if not self.close_sent:
            self.listener.received(data)

    def handle_parser_exception(self) -> None:
        """Handle broken framing; an oversized frame gets the protocol's own answer."""
        closed = self.conn.close_sent
        if closed is None or closed.code != WebSocketCloseCode.MESSAGE_TOO_BIG or self.close_sent:
            super().handle_parser_exception()
            return
        self.conn.data_to_send()  # drop the close frame that websockets made
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.TOO_BIG, "reason": ""})
        self._send_too_big(self.config.ws_max_size)
        self.transport.write(bytes((0x88, 2)) + CloseCode.TOO_BIG.to_bytes(2, "big"))
        self.close_sent = True
        # The rest of the frame is still coming in: closing now would reset the connection before the peer
        # has read why.
        self.release()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    # The listener's side

    @property
    def unsent(self) -> int:
        """See SocketWriter."""
        return self.transport.get_write_buffer_size()

    def write(self, payload: bytes, text: bool) -> None:
        """See SocketWriter."""
        if self.close_sent or self.transport.is_closing():
            return
        if self.conn.extensions:  # deflate
            if self.conn.state is State.OPEN:
                (self.conn.send_text if text else self.conn.send_binary)(payload)
                self.transport.write(b"".join(self.conn.data_to_send()))
            return
        self.transport.write(frame_head(len(payload), text) + payload)

    def hold(self) -> None:
        """See SocketWriter."""
        self._held = True
        self._pace_reading()

    def release(self) -> None:
        """See SocketWriter."""
        self._held = False
        if self._unread and not self._reading_on:
            self._reading_on = True
            self.loop.call_soon(self._read_on)
        self._pace_reading()

    def close(self, code: int, reason: str = "") -> None:
        """See SocketWriter."""
        if self.close_sent or self.transport.is_closing():
            return
        self._send_close(code, reason)
        self.release()  # the peer's own close frame comes in
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.close)

    def abort(self, code: int) -> None:
        """See SocketWriter: best effort now, by force after a moment."""
        if not self.close_sent and not self.transport.is_closing():
            self._send_close(code)
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _send_close(self, code: int, reason: str = "") -> None:
        self.close_sent = True
        if self.conn.state is State.OPEN:
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))

    def _send_too_big(self, most: int) -> None:
        problem = refusal(
            ErrorCode.BAD_MESSAGE, f"a frame may have {most} bytes: send less at once", limit=most
        )
        error = Error(problem.code, problem.message, problem.retry, limit=problem.limit)
        offered: list[str] = list(self.scope["subprotocols"])
        subprotocol = codec.choose_subprotocol(offered) or Subprotocol.JSON
        payload = codec.encode(error, subprotocol)
        self.transport.write(frame_head(len(payload), subprotocol is Subprotocol.JSON) + payload)


def frame_head(length: int, text: bool) -> bytes:
    """Head of a whole, unmasked message, which precedes its payload (RFC 6455, 5.2)."""
    kind = 0x81 if text else 0x82
    if length < 126:
        return bytes((kind, length))
    if length < 65536:
        return bytes((kind, 126)) + length.to_bytes(2, "big")
    return bytes((kind, 127)) + length.to_bytes(8, "big")
