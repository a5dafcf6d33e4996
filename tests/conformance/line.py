"""One socket of a case: frames in and out in its encoding, each entered in the ledger."""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from core.clock import monotonic
from tests.conformance.cases import Encoding, RawStep
from tests.conformance.ledger import Answers, BrokenPromise, Frame, Ledger
from tests.conformance.values import BadCase, Names
from tests.support.patience import patience

SHOWN = 12


class LineRefused(Exception):  # noqa: N818  (what a case may want)
    """The HTTP status of an upgrade that was refused."""

    def __init__(self, status: int) -> None:
        self.status = status


class LineSocket(Protocol):
    """A client's end: of a WebSocket, or of a gateway that has none."""

    async def send(self, frame: str | bytes) -> None:
        """One frame; nothing where the socket is gone."""
        ...

    async def send_text(self, octets: bytes) -> None:
        """A text frame of these bytes, which may be no UTF-8."""
        ...

    async def recv(self) -> str | bytes | int:
        """The next frame, or the code with which the server closed. A lost socket is code 1006."""
        ...

    async def close(self) -> None:
        """End it as a client does that goes away."""
        ...

    def cut(self) -> None:
        """Lose the wire without a word."""
        ...


class GatewayLine:
    """A client that does nothing by itself: no acks, no pongs."""

    def __init__(self, socket: LineSocket, encoding: Encoding, answers: Answers) -> None:
        self.ledger = Ledger(answers)
        self.talk: list[str] = []
        self.close, self.cut = socket.close, socket.cut
        self._socket = socket
        self._encoding = encoding

    async def say(self, message: Any) -> None:
        """Send one message."""
        self._note("→", message)
        self.ledger.said(message)
        packed: str | bytes = (
            json.dumps(message, separators=(",", ":"), ensure_ascii=False)
            if self._encoding == "json"
            else msgspec.msgpack.encode(message)
        )
        await self._socket.send(packed)

    async def say_raw(self, raw: RawStep, names: Names) -> None:
        """Send one frame as it is written."""
        match raw:
            case RawStep(text=written) if written is not None:
                await self._socket.send(names.text(written))
            case RawStep(base64=written) if written is not None:
                await self._socket.send(base64.b64decode(names.text(written)))
            case RawStep(not_utf8=written) if written is not None:
                await self._socket.send_text(base64.b64decode(names.text(written)))
            case _:
                raise BadCase("a raw frame is text, base64 or not_utf8")
        self._note("→", raw)

    async def hear(self, seconds: float) -> Frame | int:
        """The next message, or the code with which the server closed. A lost socket is code 1006."""
        async with patience(max(seconds, 0)):
            packed = await self._socket.recv()
        if isinstance(packed, int):
            self._note("← closed", packed)
            return packed
        if isinstance(packed, str) is not (self._encoding == "json"):
            raise BrokenPromise(f"a {type(packed).__name__} frame in {self._encoding}")
        frame: Frame = json.loads(packed) if isinstance(packed, str) else msgspec.msgpack.decode(packed)
        self._note("←", frame)
        self.ledger.heard(frame)
        return frame

    def _note(self, arrow: str, what: Any) -> None:
        shown = str(what)
        at = f"{monotonic() % 1000:.3f}"
        self.talk.append(f"{at} {arrow} {shown[:240]}")

    @property
    def last_words(self) -> str:
        """What was said last, for whoever reads a failure."""
        return "\n".join(f"    {line}" for line in self.talk[-SHOWN:])


class WebSocket:
    """See Socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, frame: str | bytes) -> None:
        """See Socket."""
        with suppress(ConnectionClosed):
            await self._socket.send(frame)

    async def send_text(self, octets: bytes) -> None:
        """See Socket."""
        async with self._socket.send_context():
            self._socket.protocol.send_text(octets)

    async def recv(self) -> str | bytes | int:
        """See Socket."""
        try:
            return await self._socket.recv()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    async def close(self) -> None:
        """See Socket."""
        await self._socket.close(1001)

    def cut(self) -> None:
        """See Socket."""
        self._socket.transport.abort()


@asynccontextmanager
async def connected(
    url: str, headers: dict[str, str], offered: list[str], answers: Answers
) -> AsyncGenerator[GatewayLine]:
    """A socket that has said nothing yet. Raises UpgradeRefused."""
    connecting = connect(
        url.replace("http", "ws", 1) + "/v1/ws",
        subprotocols=[Subprotocol(each) for each in offered],
        additional_headers=headers,
        max_size=None,
        ping_interval=None,
        close_timeout=1,
        proxy=None,
    )
    try:
        socket = await connecting
    except InvalidStatus as refused:
        raise LineRefused(refused.response.status_code) from refused
    async with socket:
        yield GatewayLine(WebSocket(socket), encoding_of(socket.subprotocol or ""), answers)


def encoding_of(subprotocol: str) -> Encoding:
    """What is spoken by it."""
    return "msgpack" if subprotocol.endswith("msgpack") else "json"
