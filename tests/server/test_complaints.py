"""What users of other systems complained about, where no other test rules it out (docs/complaints.md)."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from parley_client import Client
from server.reading.subscriptions import Subscriptions
from tests.server.site import RawPeer, Site, running_site
from tests.support.patience import soon, wait_until
from tests.support.redis import Redis

ROOT = Path(__file__).parents[2]
DEFLATED = "Nile, Rhine and Zambezi. " * 20


async def read_on(peer: RawPeer, g: int, text: str) -> tuple[str, int]:
    """Acknowledge and read until there is that much text; the text, and the last offset."""
    got, o = "", 0
    while len(got) < len(text):
        frame = await peer.hear()
        o = frame.get("b", frame.get("o", o))
        got += frame.get("x", "")
        await peer.tell("ack", a=[[g, o]])
    return got, o


async def test_news_that_never_arrive_delay_an_answer_and_lose_nothing(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Every hint is lost, the end's too. The gateway looks at the log itself."""
    monkeypatch.setattr(Subscriptions, "_take", lambda *_: None)
    async with (
        running_site(settings, sqlite, redis, poll_interval_seconds=0.1) as site,
        site.answering("not a word of it is lost"),
        Client(site.url, site.key) as client,
    ):
        answer = await client.send("hello")
        ended = await soon(answer.end())
        assert (answer.text, ended.verified) == ("not a word of it is lost", True)


async def test_an_answer_is_not_lost_with_who_left_at_its_first_event(gateway: Site):
    """The client goes at `queued`, before any worker came. The answer is made and read later."""
    async with gateway.welcomed() as peer:
        id = await peer.send()
        assert (await peer.hear("event"))["k"] == "queued"
        peer.socket.transport.abort()
    async with gateway.answering("still here"), Client(gateway.url, gateway.key) as client:
        answer = await client.attach(id)
        assert (await answer.end()).verified
        assert answer.text == "still here"


async def test_a_second_resume_goes_on_where_the_first_one_stood(gateway: Site):
    """Two cuts in a row, and nothing is said twice."""
    text = "one two three four five six"
    async with gateway.answering(text, step_seconds=0.02):
        async with gateway.welcomed() as first:
            id = await first.send()
            g = (await first.hear("accepted"))["g"]
            got, o = await read_on(first, g, "one ")
            token = first.welcome["resume_token"]
            first.socket.transport.abort()
        for enough in ("two three ", "four five six"):
            listed = [{"id": id, "epoch": 1, "o": o}]
            async with gateway.welcomed(resume={"token": token, "requests": listed}) as again:
                token = again.welcome["resume_token"]
                assert again.welcome["resumed"] == "full"
                found = again.welcome["requests"][0]
                assert found["from"] == o + 1
                missing = text[len(got) :] if enough.endswith("six") else enough
                more, o = await read_on(again, found["g"], missing)
                got += more
                again.socket.transport.abort()
    assert got == text


async def test_no_memory_for_compression_unless_it_is_asked_for(gateway: Site):
    """A client that offers deflate gets plain frames from a gateway as it comes."""
    async with gateway.welcomed() as peer:
        offered = peer.socket.request
        assert offered is not None
        assert "permessage-deflate" in offered.headers["Sec-WebSocket-Extensions"]
        assert peer.socket.protocol.extensions == []


async def test_deflate_where_the_installation_wants_it(sqlite: Database, redis: Redis, settings: Settings):
    """Offered by the client and switched on by a setting; an answer arrives whole."""
    deflating = running_site(settings, sqlite, redis, deflate=True)
    async with deflating as site, site.answering(DEFLATED), Client(site.url, site.key) as client:
        async with site.welcomed() as peer:
            assert [each.name for each in peer.socket.protocol.extensions] == ["permessage-deflate"]
        answer = await client.send("hello")
        assert (await answer.end()).verified
    assert answer.text == DEFLATED


async def test_readers_that_leave_leave_nothing_behind(gateway: Site, redis: Redis):
    """Readers that come and go cost no more connections to Redis; the last one is forgotten."""
    async with gateway.welcomed() as peer:
        id = await peer.send()
        await peer.hear("event")

        async def visit() -> None:
            async with gateway.welcomed() as visitor:
                await visitor.tell("attach", id=id, o=0)
                await visitor.hear("event")

        async def connections() -> int:
            facts: dict[str, Any] = await redis.info("clients")
            return facts["connected_clients"]

        await asyncio.gather(*(visit() for _ in range(20)))
        before = await connections()
        for _ in range(60):
            await visit()
        assert await connections() <= before
        assert await followers(redis, id) == 1
        peer.socket.transport.abort()

    async def forgotten() -> bool:
        return await followers(redis, id) == 0

    await wait_until(forgotten)


async def followers(redis: Redis, id: str) -> int:
    """Gateways that the pool sends this request's news to."""
    keys: list[bytes] = [key async for key in redis.scan_iter(f"*rd:*{id}*")]  # pyright: ignore
    return sum([await redis.hlen(key) for key in keys])  # pyright: ignore


async def test_a_handshake_code_reaches_a_client_that_still_sends(gateway: Site):
    """A close says why, also to a client whose frames are still on their way."""
    async with gateway.open() as peer:
        await peer.tell("hello", v=1, token="pk_wrong")
        for _ in range(50):
            await peer.tell("ping", ts=1)
        assert await peer.closed() == 4501


def test_nothing_that_serves_waits_for_redis_in_a_blocking_way():
    """Only the asyncio client and its errors are imported."""
    assert not list(blocking_imports())


def blocking_imports() -> Iterator[str]:
    """Imports of the blocking client in what serves or generates."""
    for package in ("core", "server", "engine", "billing"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names if each.name == "redis"]
                elif isinstance(node, ast.ImportFrom) and node.module in ("redis", "redis.client"):
                    names = [
                        each.name for each in node.names if each.name.startswith(("Redis", "StrictRedis"))
                    ]
                else:
                    continue
                yield from (f"{path}: {name}" for name in names)
