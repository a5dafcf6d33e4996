"""Serving an ASGI application until told to stop. Signals stay with core.service."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator
from typing import Any

import uvicorn

from core.errors import StartupError

BACKLOG = 2048

Listener = socket.socket


class _Server(uvicorn.Server):
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


async def serve(app: Any, listener: socket.socket, stop: asyncio.Event, **options: Any) -> None:
    """Serve `app` on the socket until `stop`, then let open requests finish. `options` are uvicorn's."""
    config = uvicorn.Config(app, access_log=False, log_config=None, lifespan="off", **options)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        server.should_exit = True
        await serving
