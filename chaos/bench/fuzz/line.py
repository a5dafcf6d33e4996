"""A connection without a socket: raw bytes go into the very protocol that a server's socket would feed."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
ANSWER_SECONDS_MAX = 2.0
CUT_SECONDS = 0.02
FEEDING_TURNS = 3
SWITCHED = 101
SESSION_SECONDS = 0.03


class FuzzTransport(asyncio.Transport):
    """What a protocol thinks is a socket. Closing it, from either side, ends the connection."""

    def __init__(self, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": ("127.0.0.1", 8080)})
        self.written = bytearray()
        self.closed = asyncio.Event()
        self._closing = False
        self._protocol: Any = None

    def open(self, protocol: Any) -> None:
        """The connection is there."""
        self._protocol = protocol
        protocol.connection_made(self)

    def feed(self, data: bytes) -> None:
        """Bytes come in."""
        if not self._closing:
            self._protocol.data_received(data)

    def write(self, data: Any) -> None:
        """See asyncio.Transport."""
        self.written += data

    def close(self) -> None:
        """See asyncio.Transport."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        """See asyncio.Transport."""
        self.close()

    def is_closing(self) -> bool:
        """See asyncio.Transport."""
        return self._closing

    def set_protocol(self, protocol: Any) -> None:
        """See asyncio.Transport."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """See asyncio.Transport."""
        return self._protocol

    def get_write_buffer_size(self) -> int:
        """Everything is taken at once."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing to limit."""

    def pause_reading(self) -> None:
        """The fuzzer does not write more than it has."""

    def resume_reading(self) -> None:
        """See pause_reading."""

    def _end(self) -> None:
        self._protocol.connection_lost(None)
        self.closed.set()


@dataclass
class Served:
    """One application behind its protocol. `answer_seconds_max`: what takes longer is no answer."""

    config: uvicorn.Config
    answer_seconds_max: float = ANSWER_SECONDS_MAX
    state: ServerState = field(default_factory=ServerState)

    def __post_init__(self) -> None:
        self.config.load()

    def connect(self, peer: str) -> FuzzTransport:
        """A new connection from this address."""
        line = FuzzTransport((peer, 40_000))
        line.open(self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={}))  # pyright: ignore[reportCallIssue]
        return line

    async def ask(self, pieces: Sequence[bytes], peer: str, whole: bool) -> FuzzTransport:
        """Send a request and wait until the connection ends. What is not `whole` is cut off by us."""
        line = self.connect(peer)
        loop = asyncio.get_running_loop()
        for piece in pieces:
            loop.call_soon(line.feed, piece)
        for _ in range(FEEDING_TURNS):
            await asyncio.sleep(0)
        if self.state.tasks:
            await asyncio.wait(
                set(self.state.tasks), timeout=self.answer_seconds_max if whole else CUT_SECONDS
            )
        if status(line) == SWITCHED:
            await asyncio.sleep(SESSION_SECONDS)
        line.close()
        await line.closed.wait()
        await self.settled()
        return line

    async def settled(self) -> None:
        """Until the application has done with all requests."""
        while self.state.tasks:
            await asyncio.wait(set(self.state.tasks), timeout=ANSWER_SECONDS_MAX)


def status(line: FuzzTransport) -> int:
    """That of the first answer; 0 without one."""
    found = STATUS.match(line.written)
    return int(found[1]) if found else 0
