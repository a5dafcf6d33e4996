"""The leanest correct reader of parley.v1: follows offsets, acknowledges as the protocol asks, keeps no text.

A delta or event that does not continue what was applied is a fault of the server here: no benchmark loses
connections behind its own back, so a gap or a repeat ends it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chaos.bench.session.lean_socket import LeanSocket, dial
from core.clock import now_ms
from core.ids import uuid7

JSON, MSGPACK = "parley.v1.json", "parley.v1.msgpack"
ACK_SECONDS = 0.2
ACK_EVENTS = 128
ACK_BYTES = 16 * 1024
ANSWER_SECONDS_MAX = 30.0


class BenchFrame(msgspec.Struct):
    """What a reader looks at in any message from the server; the rest is not decoded."""

    t: str
    g: int = 0
    a: int = 0
    b: int = 0
    o: int = 0
    i: int = 0
    id: str = ""
    ts: Any = None
    code: str = ""
    message: str = ""
    reason: str = ""
    epoch: int = 0
    resume_token: str = ""
    resumed: str = ""
    state: str = ""
    requests: Sequence[dict[str, Any]] = ()


@dataclass
class BenchReading:
    """One request as its reader has it. `done` gets the end's reason."""

    id: str
    accepted: "asyncio.Future[None]"
    done: "asyncio.Future[str]"
    g: int = 0
    epoch: int = 0
    applied: int = 0
    acked: int = 0
    tokens: int = 0


Heard = Callable[[BenchReading, BenchFrame, int], None]
"""Takes a delta that was applied and the size of its payload."""


@dataclass
class ReaderOptions:
    """How a reader connects. `source`: the loopback address to come from. `acks` False: it never does."""

    subprotocol: str = JSON
    caps: Sequence[str] = ()
    window: dict[str, int] | None = None
    source: str | None = None
    acks: bool = True
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


class BenchReader:
    """One connection with any number of requests on it."""

    def __init__(self, terms: ReaderOptions, heard: Heard | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.terms = terms
        self.welcome: asyncio.Future[BenchFrame] = loop.create_future()
        self.failed: asyncio.Future[None] = loop.create_future()
        self.readings: dict[int, BenchReading] = {}
        self.by_id: dict[str, BenchReading] = {}
        self.pings = 0
        self.socket: LeanSocket
        self._loop = loop
        self._heard = heard
        packed = terms.subprotocol == MSGPACK
        self._decode: Callable[[bytes], BenchFrame] = (
            msgspec.msgpack.Decoder(BenchFrame) if packed else msgspec.json.Decoder(BenchFrame)
        ).decode
        self._encode = msgspec.msgpack.encode if packed else msgspec.json.encode
        self._due: asyncio.TimerHandle | None = None
        self._dirty: dict[int, BenchReading] = {}
        self._bytes = 0

    @classmethod
    async def connect(
        cls, url: str, key: str, terms: ReaderOptions | None = None, heard: Heard | None = None
    ) -> "BenchReader":
        """A reader that has its welcome."""
        reader = cls(terms or ReaderOptions(), heard)
        await reader.dial(url, key)
        return reader

    async def dial(self, url: str, key: str) -> None:
        """Open the socket and say hello."""
        terms = self.terms
        self.socket = await dial(url, self._receive, terms.subprotocol, terms.source)
        hello: dict[str, Any] = {"t": "hello", "v": 1, "token": key, "caps": list(terms.caps), **terms.extra}
        if terms.window:
            hello["window"] = terms.window
        self.tell(hello)
        await self._answered(self.welcome)

    async def send(self, content: str = "Tell me a story.", **options: Any) -> BenchReading:
        """Ask for an answer, and wait until it is accepted."""
        id = uuid7(now_ms())
        reading = BenchReading(id, self._loop.create_future(), self._loop.create_future())
        self.by_id[id] = reading
        self.tell({"t": "send", "id": id, "content": content, "options": options})
        await self._answered(reading.accepted)
        return reading

    def tell(self, message: dict[str, Any]) -> None:
        """Send any message."""
        self.socket.send(self._encode(message))

    def close(self) -> None:
        """Lose the connection."""
        if self._due is not None:
            self._due.cancel()
        self.socket.close()

    async def _answered(self, answer: "asyncio.Future[Any]") -> None:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            waiting = {answer, self.failed, self.socket.closed}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            if self.failed.done():
                self.failed.result()
            raise RuntimeError(f"closed with {self.socket.closed.result()}")

    def _receive(self, payload: bytes) -> None:
        frame = self._decode(payload)
        match frame.t:
            case "delta" | "event" | "end":
                self._logged(self.readings[frame.g], frame, len(payload))
            case "ping":
                self.pings += 1
                self.tell({"t": "pong", "ts": frame.ts, "a": self._vector() if self.terms.acks else []})
            case "accepted":
                reading = self.by_id[frame.id]
                reading.g, reading.epoch = frame.g, frame.epoch
                self.readings[frame.g] = reading
                reading.accepted.set_result(None)
            case "welcome":
                self._read_on(frame)
                self.welcome.set_result(frame)
            case "error":
                self._fail(f"{frame.code}: {frame.message}")
            case "snap":
                self._fail("a snap, although the log is whole")
            case _:
                pass

    def _read_on(self, welcome: BenchFrame) -> None:
        """The requests that a resume goes on with: deltas may follow in the same breath."""
        loop = self._loop
        for listed in welcome.requests:
            if "g" in listed:
                reading = BenchReading(listed["id"], loop.create_future(), loop.create_future())
                reading.g, reading.epoch = listed["g"], listed["epoch"]
                reading.applied = reading.acked = listed["from"] - 1
                self.by_id[reading.id] = self.readings[reading.g] = reading

    def _logged(self, reading: BenchReading, frame: BenchFrame, size: int) -> None:
        if frame.t == "delta":
            self._apply(reading, frame.a, frame.b)
            reading.tokens = frame.i
            if self._heard is not None:
                self._heard(reading, frame, size)
        elif frame.o:
            self._apply(reading, frame.o, frame.o)
        else:
            return  # about this connection only
        self._note(reading, size)
        if frame.t == "end":
            del self.readings[reading.g]
            reading.done.set_result(frame.reason)
            self._acknowledge()

    def _apply(self, reading: BenchReading, first: int, last: int) -> None:
        if first != reading.applied + 1:
            self._fail(f"offset {first} after {reading.applied}")
        reading.applied = last

    def _fail(self, problem: str) -> None:
        if not self.failed.done():
            self.failed.set_exception(RuntimeError(problem))

    def _note(self, reading: BenchReading, size: int) -> None:
        if not self.terms.acks:
            return
        self._dirty[reading.g] = reading
        self._bytes += size
        if reading.applied - reading.acked >= ACK_EVENTS or self._bytes >= ACK_BYTES:
            self._acknowledge()
        elif self._due is None:
            self._due = self._loop.call_later(ACK_SECONDS, self._acknowledge)

    def _acknowledge(self) -> None:
        if self.terms.acks and (vector := self._vector()):
            self.tell({"t": "ack", "a": vector})

    def _vector(self) -> list[tuple[int, int]]:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        vector: list[tuple[int, int]] = []
        for reading in self._dirty.values():
            reading.acked = reading.applied
            vector.append((reading.g, reading.applied))
        self._dirty.clear()
        self._bytes = 0
        return vector


def check(readers: Sequence[BenchReader]) -> None:
    """Raises RuntimeError where a reader was refused something, lost a frame or its connection."""
    for reader in readers:
        if reader.failed.done():
            reader.failed.result()
        if reader.socket.closed.done():
            raise RuntimeError(f"a connection closed with {reader.socket.closed.result()}")
