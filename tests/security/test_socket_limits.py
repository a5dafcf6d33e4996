"""Connections: what one end user or one silent address may have of what all share."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from billing.api import Principal
from core.configuration.settings import Settings
from core.network import unidentified_sockets
from core.observability.telemetry import RepeatedWarning
from core.sql.database import Database
from server.access.authentication import ORIGIN_PROBLEM
from server.connection import connection
from server.connection.connection_limit import ConnectionLimit
from tests.server.site import RawPeer, Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

SILENT = {"silent_sockets_per_address_max": 3}


async def ticket(site: Site, user: str) -> str:
    """One for this user."""
    async with httpx.AsyncClient(verify=False) as client:
        headers = {"authorization": f"Bearer {site.key}"}
        reply = await client.post(f"{site.url}/v1/tickets", headers=headers, json={"user": user})
        return reply.json()["ticket"]


async def said(site: Site, token: str, **hello: Any) -> tuple[dict[str, Any], int | None]:
    """What a hello is answered, and the close code where that was no welcome."""
    async with site.open() as peer:
        await peer.tell("hello", v=1, token=token, **hello)
        answer = await peer.hear()
        return answer, None if answer["t"] == "welcome" else await peer.closed()


async def test_one_end_user_cannot_take_a_service_keys_connections(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Ada has hers, and what she has more is refused; Ben and the service come in until the key is full. How
    many the key may have is told to the service only."""
    few = {"connections_per_key_max": 4, "connections_per_user_max": 2}
    async with running_site(settings, sqlite, redis, **few) as site, AsyncExitStack() as stack:

        async def come(user: str | None) -> RawPeer:
            token = await ticket(site, user) if user else site.key
            return await stack.enter_async_context(site.welcomed(token))

        mine = [await come("ada"), await come("ada")]
        error, close = await said(site, await ticket(site, "ada"))
        assert (error["code"], error["scope"], error["limit"], close) == ("rate_limited", "user", 2, 4505)
        await come("ben")
        await come(None)
        for token, limit in ((site.key, 4), (await ticket(site, "cleo"), None)):
            error, close = await said(site, token)
            assert (error["code"], error["scope"], close) == ("rate_limited", "key", 4505)
            assert error.get("limit") == limit
        resume = {"token": mine[0].welcome["resume_token"], "requests": []}
        welcome, _ = await said(site, await ticket(site, "ada"), resume=resume)
        assert welcome["resumed"] == "full", "it takes its place along"

        async def has_room() -> bool:
            return (await said(site, await ticket(site, "ada")))[0]["t"] == "welcome"

        await wait_until(has_room)


async def test_a_hello_that_finds_no_place_leaves_nothing(sqlite: Database, redis: Redis, settings: Settings):
    """However often it is tried: 15 minutes of sessions would fill Redis. One that was resumed stays."""
    async with running_site(settings, sqlite, redis, connections_per_key_max=1) as site, site.welcomed():
        for _ in range(3):
            error, close = await said(site, site.key)
            assert (error["code"], close) == ("rate_limited", 4505)
        keys: Any = redis.keys("*sess:*")
        assert len(await keys) == 1


async def test_who_comes_and_goes_fills_no_log(
    sqlite: Database,
    redis: Redis,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """Whom we know has a line for each connection; strangers one for many, with the address of the last."""
    monkeypatch.setattr(connection, "repeated", RepeatedWarning(connection.log, 3600))
    async with running_site(settings, sqlite, redis) as site:
        for _ in range(10):
            async with site.open():
                pass
        async with site.welcomed():
            pass
    lines = [line for line in "".join(capsys.readouterr()).splitlines() if "] connection" in line]
    assert len(lines) == 2
    assert [site.tenant in line for line in lines].count(True) == 1
    assert "127.0.0.1" in "".join(lines)


async def test_silent_sockets_of_one_address_are_few(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Where its places are taken by those who just came, the next upgrade is refused over HTTP; who has said
    hello does not count."""
    monkeypatch.setattr(unidentified_sockets, "GRACE_SECONDS", 3600)
    async with running_site(settings, sqlite, redis, **SILENT) as site, AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(site.welcomed())
        for _ in range(3):
            await stack.enter_async_context(site.open())
        with pytest.raises(InvalidStatus) as refused:
            await stack.enter_async_context(site.open())
        assert refused.value.response.status_code == 429
        assert refused.value.response.headers["retry-after"] == "1"
        async with httpx.AsyncClient(verify=False) as client:
            assert (await client.get(f"{site.url}/healthz")).status_code == 200


async def test_a_page_of_another_site_is_told_and_kept_as_a_silent_socket(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """It reads why, as a browser says nothing of a refused upgrade; one that does not go counts as a socket
    that said no hello, its hello is not read, and nothing of it is in Redis."""
    monkeypatch.setattr(unidentified_sockets, "GRACE_SECONDS", 3600)
    evil = {"origin": "https://evil.example"}
    async with running_site(settings, sqlite, redis, **SILENT) as site, AsyncExitStack() as stack:
        for _ in range(5):
            async with site.open(**evil) as page:
                with contextlib.suppress(ConnectionClosed):
                    await page.tell("hello", v=1, token=site.key)
                assert await page.closed() == 4504
                assert page.socket.close_reason == ORIGIN_PROBLEM
        assert not await cast(Any, redis).keys("*sess:*")
        for _ in range(3):
            stay = await asyncio.open_connection("127.0.0.1", site.settings.port)
            stack.callback(stay[1].close)
            stay[1].write(upgrade(site, **evil))
            assert b" 101 " in await stay[0].readuntil(b"\r\n\r\n")
            assert ORIGIN_PROBLEM.encode() in await stay[0].readuntil(ORIGIN_PROBLEM.encode())
        with pytest.raises(InvalidStatus) as refused:
            await stack.enter_async_context(site.open())
        assert refused.value.response.status_code == 429


def upgrade(site: Site, **headers: str) -> bytes:
    """The head of a request for a WebSocket."""
    fixed = {"host": site.url.removeprefix("http://"), "connection": "Upgrade", "upgrade": "websocket"}
    fixed |= {"sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    named = fixed | {"sec-websocket-protocol": "parley.v1.json"} | headers
    lines = ["GET /v1/ws HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode()


async def test_who_is_silent_longest_makes_room(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """So that an honest one comes in through any crowd; he whom it hits may come again."""
    monkeypatch.setattr(unidentified_sockets, "GRACE_SECONDS", 0)
    async with running_site(settings, sqlite, redis, **SILENT) as site, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(site.open()) for _ in range(4)]
        assert (await silent[0].hear("error"))["code"] == "rate_limited"
        assert await silent[0].closed() == 4013
        async with site.welcomed():
            assert await silent[1].closed() == 4013
        await silent[3].tell("hello", v=1, token=site.key)
        assert (await silent[3].hear())["t"] == "welcome"


async def test_an_address_opens_so_many_sockets_a_second(sqlite: Database, redis: Redis, settings: Settings):
    """Also those that say hello and go."""
    async with running_site(settings, sqlite, redis, sockets_per_address_per_second=0.1) as site:
        async with site.welcomed():
            pass
        with pytest.raises(InvalidStatus) as refused:
            async with site.open():
                pass
        assert refused.value.response.status_code == 429


@pytest.mark.parametrize("user", ["ada", "a" * 200])
async def test_a_users_name_is_not_in_redis(sqlite: Database, redis: Redis, settings: Settings, user: str):
    """Places are counted by a hash."""
    async with running_site(settings, sqlite, redis) as site, site.welcomed(await ticket(site, user)):
        names = [name async for name in redis.scan_iter(match="*conns:*")]
        assert len(names) == 2
        assert not any(user.encode() in name for name in names)


async def test_a_place_whose_gateway_died_is_free_again(redis: Redis, settings: Settings):
    """Also where others of the key live on; and who has the most of his own is told that."""
    few = settings.model_copy(update={"connections_per_key_max": 3, "connections_per_user_max": 2})
    places, client = ConnectionLimit(redis, few), cast(Any, redis)
    ada = Principal("t1", "p1", "k1", "ada", frozenset({"chat"}), "interactive", None, True, "k1")
    bob = replace(ada, user="bob")
    for number, who in enumerate((ada, bob, ada)):
        assert await places.take(who, f"c{number}", "") is None
    full = [await places.take(who, "more", "") for who in (ada, bob)]
    assert [(each and each.scope) for each in full] == ["user", "key"]
    assert await places.take(replace(ada, key="k2"), "another key's", "") is None
    for name in await client.keys("*conns:*"):
        await client.zadd(name, {"c0": 1}, xx=True)
    await places.keep()
    assert await places.take(ada, "c3", "") is not None, "a lease that its gateway renews is no dead one"
    places._taken.pop("c0")  # pyright: ignore[reportPrivateUsage]
    for name in await client.keys("*conns:*"):
        await client.zadd(name, {"c0": 1}, xx=True)
    await places.keep()
    assert await places.take(ada, "c3", "") is None
    await places.leave("c3")
    assert await places.take(ada, "c4", "") is None
