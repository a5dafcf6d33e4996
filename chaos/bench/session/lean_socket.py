"""The leanest WebSocket client: one asyncio protocol, no tasks, no library between the socket and a callback.

A load must not spend the machine on being a client. Checks nothing of WebSocket that a good server needs not.
"""

import asyncio
import base64
import os
import struct
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

Receive = Callable[[bytes], None]
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class LeanSocket(asyncio.Protocol):
    """One client socket. `bytes_in` counts everything received after the handshake, framing included."""

    def __init__(self, path: str, host: str, subprotocol: str, receive: Receive) -> None:
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.bytes_in = 0
        self.transport: Any = None
        self._request = _upgrade(path, host, subprotocol)
        self._opcode = BINARY if subprotocol.endswith("msgpack") else TEXT
        self._receive = receive
        self._rest = b""
        self._code: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        self.transport = transport
        self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone; `closed` gets the close code, None where none was said."""
        if not self.open.done():
            self.open.set_exception(exc or ConnectionError("closed in the handshake"))
        if not self.closed.done():
            self.closed.set_result(self._code)

    def data_received(self, data: bytes) -> None:
        """Frames, and before them the answer to the upgrade."""
        if self._rest:
            data = self._rest + data
        if not self.open.done():
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self.open.set_exception(ConnectionError(head.partition(b"\r\n")[0].decode()))
                self.transport.close()
                return
            self._rest = b""
            self.open.set_result(None)
            self.bytes_in = len(data)
        else:
            self.bytes_in += len(data) - len(self._rest)
        self._rest = self._take(data)

    def send(self, payload: bytes) -> None:
        """One frame. The mask is zero, which leaves the payload as it is."""
        self.transport.write(_frame(self._opcode, payload))

    def close(self) -> None:
        """Close the socket without a word, as a lost connection does."""
        self.transport.abort()

    def _take(self, data: bytes) -> bytes:
        """Hand on all whole frames; what is left of the last one."""
        at, size = 0, len(data)
        while size - at >= 2:
            start, length = at + 2, data[at + 1]
            if length == 126:
                start = at + 4
                if size < start:
                    break
                length = int.from_bytes(data[at + 2 : start])
            elif length == 127:
                start = at + 10
                if size < start:
                    break
                length = int.from_bytes(data[at + 2 : start])
            if size < start + length:
                break
            self._frame(data[at] & 15, data[start : start + length])
            at = start + length
        return data[at:]

    def _frame(self, opcode: int, payload: bytes) -> None:
        if opcode in (TEXT, BINARY):
            self._receive(payload)
        elif opcode == PING:
            self.transport.write(_frame(PONG, payload))
        elif opcode == CLOSE:
            self._code = int.from_bytes(payload[:2]) if payload else None
            self.transport.write(_frame(CLOSE, payload[:2]))
            self.transport.close()


async def dial(url: str, receive: Receive, subprotocol: str, source: str | None = None) -> LeanSocket:
    """An upgraded socket to http://host:port. `source`: the loopback address to come from."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(
        lambda: LeanSocket("/v1/ws", parts.netloc, subprotocol, receive),
        parts.hostname,
        parts.port,
        local_addr=(source, 0) if source else None,
    )
    await socket.open
    return socket


def _upgrade(path: str, host: str, subprotocol: str) -> bytes:
    """The request to upgrade."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {subprotocol}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload
