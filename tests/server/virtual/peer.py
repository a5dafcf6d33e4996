"""A client of a virtual gateway that does nothing by itself: no acks, no pongs."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from core.clock import monotonic, now_ms
from core.ids import uuid7
from tests.server.virtual.gateway import VirtualGateway, VirtualSocket

FOR_EVER_SECONDS = 1e6


@dataclass
class VirtualPeer:
    """One connection's end. Its time is the loop's."""

    wire: VirtualSocket
    welcome: dict[str, Any] = field(default_factory=dict[str, Any])

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send one message."""
        self.wire.say(json.dumps({"t": kind, **fields}))
        await asyncio.sleep(0)

    async def hear(self, kind: str = "", **fields: Any) -> dict[str, Any]:
        """The next message; or the first of one type that has these fields, pings before it are answered."""
        async with asyncio.timeout(FOR_EVER_SECONDS):
            while True:
                heard = await self.wire.heard.get()
                assert not isinstance(heard, int), f"closed {heard}"
                frame: dict[str, Any] = json.loads(heard)
                if not kind or (frame["t"] == kind and fields.items() <= frame.items()):
                    return frame
                if frame["t"] == "ping":
                    await self.tell("pong", ts=frame["ts"])

    async def send(self, content: str = "hello", **fields: Any) -> str:
        """Send one turn; its id."""
        id = uuid7(now_ms())
        await self.tell("send", id=id, content=content, **fields)
        return id

    async def closed(self) -> int:
        """The close code; messages before it are passed over."""
        async with asyncio.timeout(FOR_EVER_SECONDS):
            while True:
                heard = await self.wire.heard.get()
                if isinstance(heard, int):
                    return heard

    async def stay(self, seconds: float) -> None:
        """Answer pings for so long, as a client that is there."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    ping = await self.hear("ping")
            except TimeoutError:
                return
            await self.tell("pong", ts=ping["ts"])

    async def quiet(self) -> None:
        """It is served: its ping has a pong, and nothing was on its way before."""
        await self.tell("ping", ts=1)
        assert await self.hear() == {"t": "pong", "ts": 1}


@asynccontextmanager
async def connected(gateway: VirtualGateway) -> AsyncGenerator[VirtualPeer]:
    """A socket that has said nothing yet."""
    wire, _ = await gateway.connect()
    yield VirtualPeer(wire)
    wire.leave(1001)


@asynccontextmanager
async def welcomed(gateway: VirtualGateway, token: str, **hello: Any) -> AsyncGenerator[VirtualPeer]:
    """A socket whose hello was accepted."""
    async with connected(gateway) as peer:
        await peer.tell("hello", v=1, token=token, **hello)
        peer.welcome = await peer.hear()
        assert peer.welcome["t"] == "welcome", peer.welcome
        yield peer
