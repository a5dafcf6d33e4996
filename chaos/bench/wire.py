"""The leanest reader of parley.v1: counts tokens per frame and acknowledges, keeps no text.

A load must not spend the machine's second core on being a good client; parley_client is the good client.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from core.clock import now_ms
from core.ids import uuid7

Frame = dict[str, Any]
ACK_EVERY_FRAMES = 16


class BenchSocket:
    """One WebSocket with up to 16 requests on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._asked = 0
        self._by_id: dict[str, asyncio.Queue[Frame]] = {}
        self._by_g: dict[int, asyncio.Queue[Frame]] = {}
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, url: str, key: str) -> "BenchSocket":
        """Connect to http://… with an API key."""
        address = url.replace("http", "ws", 1).rstrip("/") + "/v1/ws"
        socket = await connect(address, subprotocols=[Subprotocol("parley.v1.json")], compression=None)
        await socket.send(msgspec.json.encode({"t": "hello", "v": 1, "token": key}).decode())
        welcome = msgspec.json.decode(await socket.recv())
        if welcome["t"] != "welcome":
            raise RuntimeError(f"not welcome: {welcome}")
        return cls(socket)

    @property
    def open_requests(self) -> int:
        """Requests without an end."""
        return self._asked

    async def ask(self, prompt: str, max_tokens: int, priority: str = "interactive") -> AsyncIterator[int]:
        """One answer of exactly `max_tokens` tokens; yields tokens per frame. Who stops reading cancels."""
        id = uuid7(now_ms())
        frames = self._by_id[id] = asyncio.Queue()
        self._asked += 1
        options = {
            "max_tokens": max_tokens,
            "min_tokens": max_tokens,
            "temperature": 1.0,
            "priority": priority,
        }
        try:
            await self._tell({"t": "send", "id": id, "content": prompt, "options": options})
            async for count in self._tokens(frames):
                yield count
        except asyncio.CancelledError:
            await self._tell({"t": "cancel", "id": id})
            raise
        finally:
            self._asked -= 1
            del self._by_id[id]
            self._by_g = {g: queue for g, queue in self._by_g.items() if queue is not frames}

    async def _tokens(self, frames: "asyncio.Queue[Frame]") -> AsyncIterator[int]:
        seen, unacknowledged = 0, 0
        while True:
            frame = await frames.get()
            unacknowledged += 1
            match frame["t"]:
                case "delta":
                    yield frame["i"] - seen
                    seen = frame["i"]
                    if unacknowledged >= ACK_EVERY_FRAMES:
                        unacknowledged = 0
                        await self._tell({"t": "ack", "a": [[frame["g"], frame["b"]]]})
                case "end":
                    await self._tell({"t": "ack", "a": [[frame["g"], frame["o"]]]})
                    yield frame["usage"]["output"] - seen
                    return
                case "error":
                    raise RuntimeError(f"refused: {frame}")
                case _:
                    pass

    async def close(self) -> None:
        """Close the socket."""
        self._task.cancel()
        await self._socket.close()

    async def _tell(self, frame: Frame) -> None:
        await self._socket.send(msgspec.json.encode(frame).decode())

    async def _read(self) -> None:
        async for data in self._socket:
            frame: Frame = msgspec.json.decode(data)
            if frame["t"] == "accepted":
                if frame["id"] in self._by_id:
                    self._by_g[frame["g"]] = self._by_id[frame["id"]]
            elif "g" in frame and frame["g"] in self._by_g:
                self._by_g[frame["g"]].put_nowait(frame)
            elif frame["t"] == "end":  # of one that nobody reads any more
                await self._tell({"t": "ack", "a": [[frame["g"], frame["o"]]]})
            elif frame["t"] == "ping":
                await self._tell({"t": "pong", "ts": frame["ts"]})
            elif frame["t"] == "error" and frame.get("id") in self._by_id:
                self._by_id[frame["id"]].put_nowait(frame)
