"""Keeps one welcomed connection for a client: dials, backs off, hands over without a gap, stops.

It knows no answers; the owner says what to send and takes every frame.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

Frame = Mapping[str, Any]
SUBPROTOCOL = Subprotocol("parley.v1.json")
SUPERSEDED = 4003
RETRYABLE = frozenset({1001, 1005, 1006, 1011, 1012, 1013})
STOPPED_AS = {
    SUPERSEDED: "superseded",
    4500: "bad_message",
    4501: "unauthorized",
    4502: "hello_timeout",
    4504: "forbidden",
    4505: "connection_limit",
    4506: "version",
    4509: "too_large",
}
BACKOFF_SECONDS_MAX = 20.0
HEALTHY_SECONDS = 30.0  # a connection that lived this long starts the backoff anew
WELCOME_SECONDS_MAX = 15.0
FRAME_BYTES_MAX = 1024 * 1024


class Stopped(Exception):  # noqa: N818  (a decision of the server)
    """The server told us not to come back."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Owner(Protocol):
    """Who uses the connection."""

    def hello(self, token: str) -> dict[str, Any]:
        """The first frame of a connection."""
        ...

    async def welcomed(self, welcome: Frame, hello: Frame) -> None:
        """A connection took over; `hello` is what it had asked."""
        ...

    async def received(self, frame: Frame) -> None:
        """A later frame of the connection that holds."""
        ...

    def lost(self) -> None:
        """No connection holds; the next one will say hello from what is applied now."""
        ...


@dataclass
class _Opened:
    """A welcomed socket."""

    socket: ClientConnection
    hello: Frame
    welcome: Frame


class Link:
    """One connection that holds, and at a handover the one that will."""

    def __init__(
        self, url: str, key: str | Callable[[], Awaitable[str]], backoff_seconds: float, owner: Owner
    ) -> None:
        self._url = url.replace("http", "ws", 1).rstrip("/") + "/v1/ws"
        self._key = key
        self._backoff_seconds = backoff_seconds
        self._owner = owner
        self._socket: ClientConnection | None = None
        self._attempt = 0
        self._handover: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Stay connected until cancelled. Raises Stopped where the server will not have us."""
        opened: _Opened | None = None
        while True:
            try:
                opened = opened or await self._open()
                opened = await self._serve(opened)
            except ConnectionClosed as closed:
                opened = None
                _stop_unless_retryable(closed)
            except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
                opened = None
                _stop_on_refused_upgrade(error)
            if opened is None:
                await self._back_off()

    async def tell(self, frame: Frame) -> None:
        """Send one frame, if a connection holds; what must arrive is said again at the next welcome."""
        if self._socket is None:
            return
        try:
            await self._socket.send(json.dumps(frame, ensure_ascii=False))
        except ConnectionClosed:
            return

    async def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            await self._socket.close()

    async def _open(self) -> _Opened:
        """Connect, say hello, wait for the welcome."""
        token = self._key if isinstance(self._key, str) else await self._key()
        socket = await connect(
            self._url,
            subprotocols=[SUBPROTOCOL],
            compression=None,
            ping_interval=None,
            max_size=FRAME_BYTES_MAX,
            close_timeout=1.0,
        )
        try:
            hello = self._owner.hello(token)
            await socket.send(json.dumps(hello))
            async with asyncio.timeout(WELCOME_SECONDS_MAX):
                while True:
                    frame: dict[str, Any] = json.loads(await socket.recv())
                    if frame["t"] == "welcome":
                        return _Opened(socket, hello, frame)
                    if frame["t"] == "error" and not frame["retry"]:
                        raise Stopped(frame["code"], frame["message"])
        except BaseException:
            await socket.close()
            raise

    async def _serve(self, opened: _Opened) -> _Opened | None:
        """Read a connection until another takes over (returned), it is lost (raises) or silent (None)."""
        before, self._socket = self._socket, opened.socket
        if before is not None:
            await before.close()
        await self._owner.welcomed(opened.welcome, opened.hello)
        successor: asyncio.Future[_Opened] = asyncio.get_running_loop().create_future()
        reading = asyncio.ensure_future(self._read(opened, successor))
        try:
            await asyncio.wait([reading, successor], return_when=asyncio.FIRST_COMPLETED)
            if self._handover is not None:
                await (
                    self._handover
                )  # where the old connection went first, the new one was on its way already
            return successor.result() if successor.done() else reading.result()
        finally:
            reading.cancel()
            if self._handover is not None:
                self._handover.cancel()
                self._handover = None
            await asyncio.gather(reading, return_exceptions=True)

    async def _hand_over(self, successor: "asyncio.Future[_Opened]") -> None:
        """Open the connection that takes over. Where that fails, the old one goes on until it is closed."""
        try:
            successor.set_result(await self._open())
        except (OSError, TimeoutError, WebSocketException, EOFError, Stopped):
            self._handover = None

    async def _read(self, opened: _Opened, successor: "asyncio.Future[_Opened]") -> None:
        """Give the owner every frame. Returns where the server went silent."""
        loop = asyncio.get_running_loop()
        heartbeat = opened.welcome["heartbeat"]
        silence_seconds = (heartbeat["interval_ms"] + heartbeat["timeout_ms"]) / 1000
        healthy_at = loop.time() + HEALTHY_SECONDS
        while True:
            try:
                async with asyncio.timeout(silence_seconds):
                    frame = json.loads(await opened.socket.recv())
            except TimeoutError:
                opened.socket.transport.abort()  # a close handshake with a dead peer takes its whole timeout
                return
            if loop.time() > healthy_at:
                self._attempt = 0
            if frame["t"] == "go_away" and self._handover is None:
                self._handover = asyncio.create_task(self._hand_over(successor))
            await self._owner.received(frame)

    async def _back_off(self) -> None:
        """Full jitter: a random wait between nothing and a ceiling that doubles."""
        self._socket = None
        self._owner.lost()
        ceiling = min(BACKOFF_SECONDS_MAX, self._backoff_seconds * 2**self._attempt)
        self._attempt += 1
        await asyncio.sleep(random.uniform(0, ceiling))


def _stop_unless_retryable(closed: ConnectionClosed) -> None:
    code = closed.rcvd.code if closed.rcvd is not None else 1006
    reason = closed.rcvd.reason if closed.rcvd is not None else ""
    if code == SUPERSEDED or not (code in RETRYABLE or 4000 <= code < 4500):
        raise Stopped(STOPPED_AS.get(code, "closed"), reason or f"the server closed the connection ({code})")


def _stop_on_refused_upgrade(error: Exception) -> None:
    """An HTTP answer of 4xx to the upgrade will be the same next time, but for 408 and 429."""
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if isinstance(error, InvalidURI) or (400 <= status < 500 and status not in (408, 429)):
        raise Stopped("bad_request", f"the server refused the WebSocket: {error}")
