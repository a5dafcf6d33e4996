"""Serving an ASGI application until told to stop. Signals stay with core.runtime.service."""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from core.configuration.settings import Settings
from core.errors import StartupError
from core.network.addresses import KnownCallers, caller, rate_limit_address, trusted
from core.network.unidentified_sockets import UnidentifiedSockets
from core.web.host_check import AllowedHosts

BACKLOG = 2048
HEAD_SECONDS_MAX = 10.0
HEAD_BYTES_MAX = 32 * 1024
TARGET_BYTES_MAX = 8 * 1024
HEADERS_MAX = 100
PIECE_BYTES = 8 * 1024
CLOSING = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout" + CLOSING
# Told as the API of operations tells its problems: of all these replies only this one is in /openapi.json.
LONG_TARGET = (
    b'{"type":"urn:parley:problem:bad_request","title":"The address is too long","status":414,'
    b'"detail":"a path and its query have at most %d bytes"}' % TARGET_BYTES_MAX
)
TOO_LONG = (
    b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-type: application/problem+json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(LONG_TARGET), LONG_TARGET)
)
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large" + CLOSING

Listener = socket.socket


class RefusedHeadError(Exception):
    """Ends the parsing of a request whose head was refused."""


class UpgradeGate:
    """Checks of a socket and an upgrade before anything is kept for its caller. `proxies`: those whose
    headers count; `hosts`: names we are called by; `unidentified`: sockets that owe their first request."""

    def __init__(self, settings: Settings, host: str | None = None) -> None:
        self.proxies = settings.proxies
        self.hosts = settings.hosts(host or settings.host)
        self.unidentified = unidentified_sockets(settings)

    def refuse_upgrade(self, address: str) -> bytes | None:
        """The whole HTTP reply for a caller that may not open a WebSocket now, else None."""
        _ = address
        return None


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with bounds: its own waits for a head for ever, takes one of any length, and
    any number of sockets."""

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _header_bytes = 0

    def __init__(self, gate: UpgradeGate, **options: Any) -> None:
        super().__init__(**options)
        self._gate = gate

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Count a new socket as one that owes a request."""
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        # Behind a trusted proxy the address is known with the head.
        address = None if trusted(peer, self._gate.proxies) else rate_limit_address(peer)
        if self._gate.unidentified.enter(self, address, transport.abort):
            self._wait_for_head()
        else:
            transport.abort()

    def handle_websocket_upgrade(self) -> None:
        """The head of an upgrade is whole, and nothing is made of it yet."""
        peer = self.client[0] if self.client else None
        address = caller(peer, False, self.headers, self._gate.proxies).address
        refused = self._gate.refuse_upgrade(address)
        if refused is None:
            super().handle_websocket_upgrade()
        else:
            self._refuse(refused)

    def data_received(self, data: bytes) -> None:
        """Read more of a request; of its head only so much, whatever one read of the socket brought."""
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            super().data_received(piece)
            if self._head_timer is not None:
                self._head_bytes += len(piece)
                if self._head_bytes > HEAD_BYTES_MAX:
                    self._refuse(TOO_LARGE)
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return

    def on_url(self, url: bytes) -> None:
        """The target, or a part of it."""
        super().on_url(url)
        if len(self.url) > TARGET_BYTES_MAX:
            self._refuse(TOO_LONG)
            raise RefusedHeadError

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if len(self.headers) > HEADERS_MAX or self._header_bytes > HEAD_BYTES_MAX:
            self._refuse(TOO_LARGE)
            raise RefusedHeadError

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to a request that was not answered yet."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """Note the first bytes of a request, perhaps not the first request of this socket."""
        super().on_message_begin()
        self._header_bytes = 0
        if self._head_timer is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self._refuse, TOO_SLOW)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            self._gate.unidentified.left(self)

    def _refuse(self, reply: bytes) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(reply)
            self.transport.close()


def unidentified_sockets(settings: Settings) -> UnidentifiedSockets:
    """Places for sockets that have not shown who they are: at most a quarter of the files that may be
    open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.silent_sockets_max
    if files != resource.RLIM_INFINITY:
        most = min(most or files, max(1, files // 4))
    return UnidentifiedSockets(settings.silent_sockets_per_address_max, most)


def raise_file_limit() -> None:
    """Raise this process' limit of open files: each socket is one, and the usual limit is too low."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers: it would take SIGTERM from us and raise it again at its end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """See uvicorn.Server."""
        yield


def listen(host: str, port: int, variable: str) -> socket.socket:
    """A listening socket. Raises StartupError naming the variable that chooses another port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        why = (
            os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error).rstrip(".")
        )
        raise StartupError(
            f"cannot listen on {host}:{port}: {why}. Choose another port with {variable}"
        ) from error
    listener.setblocking(False)
    # Accepted sockets inherit it; asyncio's own loop leaves it off, and then small frames wait for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def serve(
    app: Any, listener: socket.socket, stop: asyncio.Event, gate: UpgradeGate, **options: Any
) -> None:
    """Serve `app` on the socket until `stop`, then let open requests finish. See `configured`."""
    server = _UvicornServer(configured(app, gate, **options))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        server.should_exit = True
        await serving


def configured(app: Any, gate: UpgradeGate, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for serving `app`; `options` are uvicorn's."""
    return uvicorn.Config(
        KnownCallers(AllowedHosts(app, gate.hosts), gate.proxies),
        access_log=False,
        log_config=None,
        lifespan="off",
        http=partial(BoundedHttpProtocol, gate),  # pyright: ignore[reportArgumentType]
        proxy_headers=False,
        **options,
    )
