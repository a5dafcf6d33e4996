"""Serving: what uvicorn leaves open is closed."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from core import http


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nhost: x\r\nslow: "])
async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch, said: bytes):
    """A client that connects and dribbles holds a socket for seconds, not for ever."""
    monkeypatch.setattr(http, "HEAD_SECONDS_MAX", 0.05)
    listener, stop = http.listen("127.0.0.1", 0, "PARLEY_PORT"), asyncio.Event()
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    serving = asyncio.create_task(http.serve(app, listener, stop, proxies=()))
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(said)
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    finally:
        stop.set()
        await serving
