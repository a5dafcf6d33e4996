"""The Python client against a peer whose every frame is written by hand."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.ids import uuid7_ms
from parley_client import Answer, Client, Counters, Event
from parley_client import link as client_link
from parley_client.link import Link, LinkSettings
from tests.support.patience import BEAT_SECONDS, forever, patience
from tests.support.scripted_peer import Frame, Peer, Socket, scripted_peer

BACKOFF_SECONDS = 0.02


@pytest.fixture
async def peer() -> AsyncGenerator[Peer]:
    """A server that the test plays."""
    async with scripted_peer() as playing:
        yield playing


@asynccontextmanager
async def connected(peer: Peer, **options: Any) -> AsyncGenerator[tuple[Client, Socket]]:
    """A client that was welcomed, and the peer's end of its socket."""
    client = Client(peer.url, "pk_good", backoff_seconds=BACKOFF_SECONDS, **options)
    entering = asyncio.create_task(client.__aenter__())
    socket = await peer.socket()
    await socket.welcome()
    await entering
    try:
        yield client, socket
    finally:
        await client.close()


async def ask(client: Client, socket: Socket, g: int = 1) -> Answer:
    """Send a turn and have it accepted."""
    sending = asyncio.create_task(client.send("Hello"))
    await socket.accept(g)
    return await sending


async def collect(answer: Answer) -> list[Event]:
    """All events of an answer."""
    return [event async for event in answer.events()]


def listed(answer: Answer, **fields: Any) -> Frame:
    """A welcome that goes on with this answer."""
    request = {"id": answer.id, "g": 1, "epoch": 1, "from": 1, "head": 1, "state": "running"} | fields
    return {"requests": [request], "resumed": "full"}


@pytest.mark.parametrize("days", [3, -3])
async def test_a_clock_that_is_set_makes_no_id_of_another_day(monkeypatch: pytest.MonkeyPatch, days: int):
    """Ids go by the server's clock, carried on by one that nobody sets."""
    async with scripted_peer() as peer:
        client = Client(peer.url, "key")
        entering = asyncio.create_task(client.__aenter__())
        await (await peer.socket()).welcome()
        await entering
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + days * 24 * 3600 * 10**9)
        assert abs((uuid7_ms(client.new_id()) or 0) - real() // 10**6) < 10_000
        await client.close()


async def test_a_send_that_nobody_waits_for_any_more_is_detached(peer: Peer):
    """Who gives up before `accepted` has no answer to read: it must not hold a window for ever."""
    async with connected(peer) as (client, socket):
        with pytest.raises(TimeoutError):
            async with patience(BEAT_SECONDS):
                await client.send("Hello")
        assert (await socket.hear("detach"))["id"] == (await socket.hear("send"))["id"]
        peer.cut()
        assert (await (await peer.socket()).welcome())["resume"]["requests"] == []


async def test_a_token_that_never_comes_is_asked_for_again(peer: Peer, monkeypatch: pytest.MonkeyPatch):
    """A function that hangs does not hang the client."""
    monkeypatch.setattr(client_link, "TOKEN_SECONDS_MAX", 0.05)
    asked: list[None] = []

    async def token() -> str:
        asked.append(None)
        if len(asked) == 1:
            await forever()
        return "ticket"

    client = Client(peer.url, token, backoff_seconds=BACKOFF_SECONDS)
    entering = asyncio.create_task(client.__aenter__())
    assert (await (await peer.socket()).welcome())["token"] == "ticket"
    await entering
    await client.close()


async def test_any_cut_gives_the_same_text(peer: Peer):
    """However a log is cut into deltas, repeated and interrupted, what was applied is the log's text."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    log = [chance.choice(["a", "é", "😀 ", "word ", "\n"]) for _ in range(60)]
    text = "".join(log)
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        ending = asyncio.create_task(answer.end())
        while not ending.done():
            o = answer._reading.applied
            while o < len(log) and chance.random() > 0.15:
                again = o > 0 and chance.random() < 0.3
                first = chance.randint(1, o) if again else o + 1
                last = chance.randint(first, o if again else min(len(log), first + 5))
                piece, before = "".join(log[first - 1 : last]), "".join(log[: first - 1])
                await socket.delta(piece, first, last, p=len(before))
                o = max(o, last)
            if o == len(log):
                await socket.end(text, o + 1)
                await ending
            if not ending.done():
                client._link._attempt = 0  # the backoff of the rounds before
                peer.cut()
                socket = await peer.socket()
                await socket.welcome(**listed(answer))
        assert (await ending).verified, f"seed {seed}"
        assert answer.text == text, f"seed {seed}"


def test_the_wait_is_full_jitter_under_a_ceiling_that_doubles(monkeypatch: pytest.MonkeyPatch):
    """From 0.5 s to 20 s at most; how much of it is chance."""
    link = Link(LinkSettings("http://peer", "pk", "json", 0.5), Counters(), Client("http://peer", "pk"))
    monkeypatch.setattr(random, "uniform", lambda low, high: (low, high))
    ceilings = [link._jitter(attempt) for attempt in range(8)]
    assert ceilings == [(0, each) for each in (0.5, 1, 2, 4, 8, 16, 20, 20)]
    assert link._jitter(10_000) == (0, 20)
