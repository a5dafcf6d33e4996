"""One socket of a case: frames in and out in its encoding, each entered in the ledger."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.conformance.cases import Encoding, Raw
from tests.conformance.ledger import Answers, BrokenPromise, Frame, Ledger
from tests.conformance.values import BadCase, Names

SHOWN = 12


class Line:
    """A client that does nothing by itself: no acks, no pongs."""

    def __init__(self, socket: ClientConnection, encoding: Encoding, answers: Answers) -> None:
        self.ledger = Ledger(answers)
        self.talk: list[str] = []
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
        await self._send(packed)

    async def say_raw(self, raw: Raw, names: Names) -> None:
        """Send one frame as it is written."""
        match raw:
            case Raw(text=written) if written is not None:
                await self._send(names.text(written))
            case Raw(base64=written) if written is not None:
                await self._send(base64.b64decode(names.text(written)))
            case Raw(not_utf8=written) if written is not None:
                async with self._socket.send_context():
                    self._socket.protocol.send_text(base64.b64decode(names.text(written)))
            case _:
                raise BadCase("a raw frame is text, base64 or not_utf8")
        self._note("→", raw)

    async def hear(self, seconds: float) -> Frame | int:
        """The next message, or the code with which the server closed. A lost socket is code 1006."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                packed = await self._socket.recv()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 1006
            self._note("← closed", code)
            return code
        if isinstance(packed, str) is not (self._encoding == "json"):
            raise BrokenPromise(f"a {type(packed).__name__} frame in {self._encoding}")
        frame: Frame = json.loads(packed) if isinstance(packed, str) else msgspec.msgpack.decode(packed)
        self._note("←", frame)
        self.ledger.heard(frame)
        return frame

    async def close(self) -> None:
        """End it as a client does that goes away."""
        await self._socket.close(1001)

    def cut(self) -> None:
        """Lose the wire without a word."""
        self._socket.transport.abort()

    async def _send(self, packed: str | bytes) -> None:
        try:
            await self._socket.send(packed)
        except ConnectionClosed:
            self._note("→ (the socket is closed)", "")

    def _note(self, arrow: str, what: Any) -> None:
        shown = str(what)
        at = f"{time.monotonic() % 1000:.3f}"
        self.talk.append(f"{at} {arrow} {shown[:240]}")

    @property
    def last_words(self) -> str:
        """What was said last, for whoever reads a failure."""
        return "\n".join(f"    {line}" for line in self.talk[-SHOWN:])


@asynccontextmanager
async def connected(
    url: str, headers: dict[str, str], offered: list[str], answers: Answers
) -> AsyncGenerator[Line]:
    """A socket that has said nothing yet. Raises InvalidStatus where the upgrade is refused."""
    async with connect(
        url.replace("http", "ws", 1) + "/v1/ws",
        subprotocols=[Subprotocol(each) for each in offered],
        additional_headers=headers,
        max_size=None,
        ping_interval=None,
        close_timeout=1,
        proxy=None,
    ) as socket:
        chosen = socket.subprotocol or ""
        yield Line(socket, "msgpack" if chosen.endswith("msgpack") else "json", answers)
