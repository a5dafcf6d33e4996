"""A client written from docs/protocol.md alone: it checks the protocol's promises on every frame it sees."""

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from core.clock import now_ms
from core.ids import uuid7

Frame = dict[str, Any]


@dataclass
class Reading:
    """One request as its reader sees it."""

    id: str
    applied: int = 0
    text: str = ""
    kinds: list[str] = field(default_factory=list[str])
    end: Frame | None = None


@dataclass
class SystemSocket:
    """One connection after `welcome`."""

    socket: ClientConnection
    welcome: Frame
    readings: dict[int, Reading] = field(default_factory=dict[int, Reading])

    async def tell(self, kind: str, **fields: Any) -> None:
        """Send one message."""
        await self.socket.send(json.dumps({"t": kind, **fields}))

    async def hear(self) -> Frame:
        """The next message, applied to the reading it belongs to."""
        frame: Frame = json.loads(await self.socket.recv())
        match frame["t"]:
            case "accepted":
                self.readings.setdefault(frame["g"], Reading(frame["id"]))
            case "attached":
                self.readings.setdefault(frame["g"], Reading(frame["id"], frame["from"] - 1))
            case "ping":
                await self.tell("pong", ts=frame["ts"])
            case "delta" | "event" | "end" | "snap" if "o" in frame or "a" in frame:
                await self._apply(self.readings[frame["g"]], frame)
            case _:
                pass
        return frame

    async def _apply(self, reading: Reading, frame: Frame) -> None:
        assert reading.end is None, f"{frame} follows the end"
        first: int = frame["a"] if "a" in frame else frame["o"]
        last: int = frame["b"] if "b" in frame else frame["o"]
        if frame["t"] == "snap":
            reading.text = frame["x"]
        else:
            assert first == reading.applied + 1, f"offset {first} after {reading.applied}"
        if frame["t"] == "delta":
            assert frame["p"] == len(reading.text), "a delta starts where the text ends"
            reading.text += frame["x"]
        elif frame["t"] == "event":
            reading.kinds.append(frame["k"])
        elif frame["t"] == "end":
            reading.end = frame
            assert frame["h"] == hashlib.sha256(reading.text.encode()).hexdigest(), "h is the text's hash"
        reading.applied = last
        await self.tell("ack", a=[[frame["g"], last]])

    async def send(self, content: str, **fields: Any) -> Reading:
        """Start one request and wait until it is accepted. A refusal is an AssertionError."""
        id = fields.pop("id", None) or uuid7(now_ms())
        await self.tell("send", id=id, content=content, **fields)
        while True:
            frame = await self.hear()
            assert frame["t"] != "error", frame
            if frame["t"] == "accepted" and frame["id"] == id:
                return self.readings[frame["g"]]

    async def finish(self, reading: Reading) -> Reading:
        """Read until the request's end."""
        while reading.end is None:
            frame = await self.hear()
            assert frame["t"] != "error", frame
        return reading


@asynccontextmanager
async def wired(url: str, key: str, **hello: Any) -> AsyncGenerator[SystemSocket]:
    """A connection to `url` (http://…) that has been welcomed."""
    address = url.replace("http", "ws", 1).rstrip("/") + "/v1/ws"
    async with connect(address, subprotocols=["parley.v1.json"]) as socket:  # pyright: ignore[reportArgumentType]
        await socket.send(json.dumps({"t": "hello", "v": 1, "token": key, **hello}))
        welcome: Frame = json.loads(await socket.recv())
        assert welcome["t"] == "welcome", welcome
        yield SystemSocket(socket, welcome)
