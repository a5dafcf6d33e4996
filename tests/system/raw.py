"""A WebSocket by hand: whatever bytes a test wants, in whatever pieces, and the frames that come back."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.patience import patience

TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0

Frame = dict[str, Any]


def upgrade(port: int, subprotocol: str = "parley.v1.json", **headers: str) -> bytes:
    """The request that opens a WebSocket."""
    lines = {
        "Host": f"127.0.0.1:{port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": subprotocol,
        **headers,
    }
    return "\r\n".join(["GET /v1/ws HTTP/1.1", *(f"{k}: {v}" for k, v in lines.items()), "", ""]).encode()


def framed(payload: bytes, kind: int = TEXT, fin: bool = True) -> bytes:
    """One masked frame. The mask is zeros, so that the payload stays readable."""
    head, length = bytes([(0x80 if fin else 0) | kind]), len(payload)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 65536:
        size = bytes([0x80 | 126]) + length.to_bytes(2, "big")
    else:
        size = bytes([0x80 | 127]) + length.to_bytes(8, "big")
    return head + size + bytes(4) + payload


def message(kind: str, **fields: Any) -> bytes:
    """One message as one frame."""
    return framed(json.dumps({"t": kind, **fields}).encode())


@dataclass
class RawSocket:
    """An upgraded connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Write pieces, each its own segment."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: its kind and payload."""
        async with patience():
            first, length = await self.reader.readexactly(2)
            if length == 126:
                length = int.from_bytes(await self.reader.readexactly(2), "big")
            elif length == 127:
                length = int.from_bytes(await self.reader.readexactly(8), "big")
            return first & 0x0F, await self.reader.readexactly(length)

    async def hear(self) -> Frame:
        """The next message."""
        while True:
            kind, payload = await self.frame()
            assert kind != CLOSE, payload
            if kind in (TEXT, BINARY):
                return json.loads(payload)

    async def hello(self, key: str, **fields: Any) -> Frame:
        """Say hello; the welcome."""
        await self.send(message("hello", v=1, token=key, **fields))
        welcome = await self.hear()
        assert welcome["t"] == "welcome", welcome
        return welcome

    async def close_code(self) -> int | None:
        """The code of the close frame; None where the connection ended without one."""
        try:
            while True:
                kind, payload = await self.frame()
                if kind == CLOSE:
                    return int.from_bytes(payload[:2], "big")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


@asynccontextmanager
async def connected(port: int, receive_bytes: int | None = None) -> AsyncGenerator[RawSocket]:
    """A TCP connection that has said nothing yet, with a small receive buffer where asked."""
    plain = socket.socket()
    if receive_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=2 * (receive_bytes or 65536))
    try:
        yield RawSocket(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def upgraded(port: int, **options: Any) -> AsyncGenerator[RawSocket]:
    """A WebSocket that has not said hello."""
    async with connected(port, **options) as raw:
        await raw.send(upgrade(port))
        reply = await raw.reader.readuntil(b"\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 101"), reply
        yield raw
