"""Keeps one welcomed connection for a client: dials, backs off, hands over without a gap, stops.

It knows no answers; the owner chooses what to send and takes every frame.
"""

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from parley_client.answer import Counters
from parley_client.causes import checked_token, no_token
from parley_client.connection import (
    SUPERSEDED,
    ConnectionState,
    Encoding,
    Frame,
    GatewayClosed,
    GatewaySocket,
    Stopped,
    same_origin,
)

BACKOFF_SECONDS_MAX = 20.0
HEALTHY_SECONDS = 30.0  # a connection that lived this long starts the backoff anew
STRAY_SECONDS = 60.0  # longer than a gateway takes to notice that a client is gone
WELCOME_SECONDS_MAX = 15.0
TOKEN_SECONDS_MAX = 15.0
Key = str | Callable[[], Awaitable[str] | str]
_log = logging.getLogger(__name__)


class SignedOut(Exception):  # noqa: N818  (a decision of the application)
    """Raised by a `key` function that has no token to give: the client stops instead of trying again. `code`:
    the reason that the client then reports."""

    def __init__(self, message: str = "", code: str = "unauthorized") -> None:
        super().__init__(message)
        self.code = code


async def fresh_token(key: Callable[[], Awaitable[str] | str]) -> str:
    """What a key function gives, where it can be a token. Other than an `async def` it may block: a thread
    calls it, while the connection in use lives on."""
    given = key() if inspect.iscoroutinefunction(key) else await asyncio.to_thread(key)
    return checked_token(await given if inspect.isawaitable(given) else given)


class LinkOwner(Protocol):
    """The user of a connection."""

    def hello(self, token: str) -> dict[str, Any]:
        """The first frame of a connection."""
        ...

    async def welcomed(self, welcome: Frame, hello: Frame) -> None:
        """Take over a new connection; `hello` is the frame that opened it."""
        ...

    async def received(self, frame: Frame) -> None:
        """Take a later frame of the open connection."""
        ...

    def lost(self) -> None:
        """Note that no connection is open; the next hello goes on from what is applied now."""
        ...

    def became(self, state: ConnectionState) -> None:
        """Note where the connection stands."""
        ...


@dataclass(frozen=True)
class LinkSettings:
    """Address, key and options of connections."""

    url: str
    key: Key
    encoding: Encoding
    backoff_seconds: float

    @property
    def socket_url(self) -> str:
        """URL of the gateway's WebSocket."""
        return self.url.replace("http", "ws", 1).rstrip("/") + "/v1/ws"


@dataclass(frozen=True)
class _Opened:
    """A welcomed connection, its hello and its welcome."""

    connection: GatewaySocket
    hello: Frame
    welcome: Frame


class Link:
    """One open connection, and during a handover the one that replaces it."""

    def __init__(self, settings: LinkSettings, counters: Counters, owner: LinkOwner) -> None:
        self._settings = settings
        self._counters = counters
        self._owner = owner
        self._connection: GatewaySocket | None = None
        self._attempt = 0
        self._stray_until = 0.0  # until then a 4003 may be our own doing: a hello of ours was not welcomed
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        """True while a welcomed connection is open."""
        return self._connection is not None

    async def run(self) -> None:
        """Stay connected until cancelled. Raises Stopped where the server refuses the client."""
        opened: _Opened | None = None
        while True:
            try:
                opened = await self._hold(opened or await self._open(self._settings.socket_url))
            except GatewayClosed as closed:
                opened = None
                if not (closed.retryable or self._own_doing(closed)):
                    raise closed.stopped() from None
                await self._back_off(closed)

    async def tell(self, frame: Frame) -> None:
        """Send one frame, if a connection is open; what must arrive is sent again at the next welcome."""
        if self._connection is not None:
            await self._connection.tell(frame)

    async def close(self) -> None:
        """Close the socket."""
        if self._connection is not None:
            await self._connection.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def token(self) -> str:
        """A fresh token. Raises Stopped where there is none, GatewayClosed where one may come later."""
        if isinstance(self._settings.key, str):
            return self._settings.key
        try:
            async with asyncio.timeout(TOKEN_SECONDS_MAX):
                return await fresh_token(self._settings.key)
        except SignedOut as signed_out:
            raise Stopped(signed_out.code, str(signed_out) or "signed out") from signed_out
        except Exception as error:  # the application's fault: its network may come back
            _log.warning("no token for the gateway, trying again: %r", error)
            problem = no_token(error, TOKEN_SECONDS_MAX)
            raise GatewayClosed(1006, problem, cause="no_token") from error

    async def _open(self, url: str) -> _Opened:
        """Connect, say hello, wait for the welcome."""
        token = await self.token()
        connection = await GatewaySocket.open(url, self._settings.encoding)
        stray_before = self._stray_until
        try:
            hello = self._owner.hello(token)
            self._stray_until = asyncio.get_running_loop().time() + STRAY_SECONDS
            await connection.tell(hello)
            opened = _Opened(connection, hello, await self._welcome(connection))
            self._stray_until = stray_before
            return opened
        except BaseException:
            self._leave(connection)
            raise

    async def _welcome(self, connection: GatewaySocket) -> Frame:
        while True:
            frame = await connection.hear(WELCOME_SECONDS_MAX)
            if frame["t"] == "welcome":
                return frame
            if frame["t"] != "error":
                continue
            stale_key = frame["code"] == "token_expired" and isinstance(self._settings.key, str)
            if stale_key or not frame["retry"]:
                raise Stopped(frame["code"], frame["message"])

    async def _hold(self, opened: _Opened) -> _Opened | None:
        """Read a connection until another takes over, and return that one. Raises GatewayClosed where it is
        lost."""
        before, self._connection = self._connection, opened.connection
        if before is not None:
            self._counters.handovers += 1
            self._leave(before)
        await self._owner.welcomed(opened.welcome, opened.hello)
        self._owner.became(ConnectionState("open"))
        asked: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        reading = asyncio.create_task(self._read(opened, asked))
        moving = asyncio.create_task(self._move(asked, reading))
        try:
            await asyncio.wait([reading, moving], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await asyncio.wait(
                    [moving]
                )  # where the old one went first, the new one was on its way already
            if moving.done() and (successor := moving.result()) is not None:
                return successor
            return await reading
        finally:
            reading.cancel()
            moving.cancel()
            await asyncio.gather(reading, moving, return_exceptions=True)

    async def _read(self, opened: _Opened, asked: "asyncio.Future[Frame]") -> None:
        """Give the owner every frame until the connection is lost (raises GatewayClosed), but go_away to
        `asked`."""
        loop = asyncio.get_running_loop()
        heartbeat = opened.welcome["heartbeat"]
        silence_seconds = (heartbeat["interval_ms"] + heartbeat["timeout_ms"]) / 1000
        healthy_at = loop.time() + HEALTHY_SECONDS
        while True:
            frame = await opened.connection.hear(silence_seconds)
            if loop.time() > healthy_at:
                self._attempt = 0
            if frame["t"] == "go_away" and not asked.done():
                asked.set_result(frame)
            await self._owner.received(frame)

    async def _move(self, asked: "asyncio.Future[Frame]", reading: asyncio.Task[None]) -> _Opened | None:
        """Open the connection that takes over; tried again while there is time and the old one lives."""
        go_away = await asked
        loop = asyncio.get_running_loop()
        by = loop.time() + go_away["in_ms"] / 1000
        url = same_origin(self._settings.socket_url, go_away.get("url"))
        for attempt in count():
            try:
                return await self._open(url)
            except (GatewayClosed, Stopped) as failed:
                if isinstance(failed, Stopped) or not failed.retryable:
                    return None
            wait = self._jitter(attempt)
            if loop.time() + wait >= by:
                return None
            lost, _ = await asyncio.wait([reading], timeout=wait)
            if lost:
                return None
        return None  # never reached: the count has no end

    def _own_doing(self, closed: GatewayClosed) -> bool:
        """True where a late hello of ours superseded our connection. One such hello excuses one 4003."""
        if closed.code != SUPERSEDED or asyncio.get_running_loop().time() >= self._stray_until:
            return False
        self._stray_until = 0.0
        return True

    async def _back_off(self, closed: GatewayClosed) -> None:
        self._connection = None
        self._owner.lost()
        self._counters.reconnects += 1
        self._attempt += 1
        seconds = closed.wait_seconds + self._jitter(self._attempt - 1)
        self._owner.became(ConnectionState("waiting", closed.why, seconds))
        await asyncio.sleep(seconds)

    def _jitter(self, attempt: int) -> float:
        """Full jitter: a random wait between nothing and a ceiling that doubles."""
        return random.uniform(
            0, min(BACKOFF_SECONDS_MAX, self._settings.backoff_seconds * 2 ** min(attempt, 16))
        )

    def _leave(self, connection: GatewaySocket) -> None:
        """Close without waiting for the peer."""
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
