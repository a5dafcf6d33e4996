"""Serving: what uvicorn leaves open is closed."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from core.configuration.settings import Settings
from core.web import http
from tests.support.patience import patience, wait_until


@asynccontextmanager
async def _serving() -> AsyncGenerator[tuple[str, int]]:
    listener, stop = http.listen("127.0.0.1", 0, "PARLEY_PORT"), asyncio.Event()
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    serving = asyncio.create_task(http.serve(app, listener, stop, http.UpgradeGate(Settings())))
    try:
        yield listener.getsockname()[:2]
    finally:
        stop.set()
        await serving


async def _answer(at: tuple[str, int], said: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*at)
    writer.write(said)
    try:
        async with patience():
            return await reader.readline()
    finally:
        writer.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nhost: localhost\r\nslow: "])
async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch, said: bytes):
    """A client that connects and dribbles holds a socket for seconds, not for ever."""
    async with _serving() as at:
        with monkeypatch.context() as hasty:
            hasty.setattr(http, "HEAD_SECONDS_MAX", 0.05)
            assert (await _answer(at, said)).startswith(b"HTTP/1.1 408 ")
        assert (await _answer(at, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


HEADS = {
    "as many headers as may be": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * http.HEADERS_MAX + b"\r\n", 200),
    "one more": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (http.HEADERS_MAX + 1) + b"\r\n", 431),
    "a long header": (b"GET / HTTP/1.1\r\na: " + b"b" * http.HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    "one without an end": (b"GET / HTTP/1.1\r\na: " + b"b" * 2 * http.HEAD_BYTES_MAX, 431),
    "many, all in one piece": (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 50_000 + b"\r\n", 431),
    "a long target": (b"GET /?" + b"a" * http.TARGET_BYTES_MAX + b" HTTP/1.1\r\n\r\n", 414),
    "a target that is none": (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", 400),
    "a length and chunks": (
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        400,
    ),
    "a length below 0": (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
}


@pytest.mark.parametrize(("said", "status"), HEADS.values(), ids=HEADS.keys())
async def test_a_head_has_bounds(said: bytes, status: int):
    """Whatever comes in one read of the socket: so many bytes, headers, and characters of a target."""
    async with _serving() as at:
        assert (await _answer(at, said)).startswith(b"HTTP/1.1 %d " % status)


async def test_a_long_target_is_told_as_the_api_tells_its_problems():
    """A client made from /openapi.json can read it."""
    async with _serving() as at:
        reader, writer = await asyncio.open_connection(*at)
        writer.write(HEADS["a long target"][0])
        async with patience():
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert b"content-type: application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["type"]) == (414, "urn:parley:problem:bad_request")
    assert "8192 bytes" in problem["detail"]


async def test_each_request_of_a_connection_has_the_same_bounds(monkeypatch: pytest.MonkeyPatch):
    """What the ones before had counts no more, and who dribbles the next one is not waited for either."""
    head = b"GET / HTTP/1.1\r\nhost: localhost\r\na: " + b"b" * (http.HEAD_BYTES_MAX // 2) + b"\r\n\r\n"
    async with _serving() as at:
        reader, writer = await asyncio.open_connection(*at)
        async with patience():
            for _ in range(4):
                writer.write(head)
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(4) == b"here"
            monkeypatch.setattr(http, "HEAD_SECONDS_MAX", 0.05)
            writer.write(head[:-2])
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()


def test_who_is_unknown_has_a_quarter_of_all_files(monkeypatch: pytest.MonkeyPatch):
    """Whatever the settings say: the others are for those who are known."""
    monkeypatch.setattr(http.resource, "getrlimit", lambda _: (40, 40))
    for settings in (Settings(silent_sockets_max=0), Settings(silent_sockets_max=1000)):
        sockets = http.unidentified_sockets(settings)
        assert [sockets.enter(number, None, lambda: None) for number in range(11)] == [True] * 10 + [False]


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ({"silent_sockets_per_address_max": 3, "trusted_proxies": ""}, 3),
        ({"silent_sockets_max": 4, "silent_sockets_per_address_max": 2}, 4),
    ],
)
async def test_sockets_that_send_nothing_are_few(limits: dict[str, Any], least: int):
    """Of one address, and over all also where a proxy is trusted; who sends a request has no place there."""
    listener, stop = http.listen("127.0.0.1", 0, "PARLEY_PORT"), asyncio.Event()
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    gate = http.UpgradeGate(Settings(**limits))
    serving = asyncio.create_task(http.serve(app, listener, stop, gate))
    at = listener.getsockname()[:2]
    try:
        silent = [await asyncio.open_connection(*at) for _ in range(least)]
        await wait_until(lambda: len(gate.unidentified) == least)
        reader, writer = await asyncio.open_connection(*at)
        with contextlib.suppress(ConnectionError):
            async with patience():
                assert await reader.read() == b""
        writer.close()
        silent[0][1].write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with patience():
            assert (await silent[0][0].readline()).startswith(b"HTTP/1.1 200 ")
        await wait_until(lambda: len(gate.unidentified) == least - 1)
        for _, writer in silent:
            writer.close()
        await wait_until(lambda: len(gate.unidentified) == 0)
    finally:
        stop.set()
        await serving
