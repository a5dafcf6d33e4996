"""Connections: what one end user or one silent address may have of what all share."""

from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.helpers.wait import wait_until
from tests.server.site import Peer, Site, running_site


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
    """Ada has hers, and what she has more is refused; Ben and the service come in until the key is full."""
    few = {"connections_per_key_max": 4, "connections_per_user_max": 2}
    async with running_site(settings, sqlite, redis, **few) as site, AsyncExitStack() as stack:

        async def come(user: str | None) -> Peer:
            token = await ticket(site, user) if user else site.key
            return await stack.enter_async_context(site.welcomed(token))

        mine = [await come("ada"), await come("ada")]
        error, close = await said(site, await ticket(site, "ada"))
        assert (error["code"], error["scope"], error["limit"], close) == ("rate_limited", "user", 2, 4505)
        await come("ben")
        await come(None)
        for token in (site.key, await ticket(site, "cleo")):
            error, close = await said(site, token)
            assert (error["code"], error["scope"], error["limit"], close) == ("rate_limited", "key", 4, 4505)
        resume = {"token": mine[0].welcome["resume_token"], "requests": []}
        welcome, _ = await said(site, await ticket(site, "ada"), resume=resume)
        assert welcome["resumed"] == "full", "it takes its place along"

        async def has_room() -> bool:
            return (await said(site, await ticket(site, "ada")))[0]["t"] == "welcome"

        await wait_until(has_room)


@pytest.mark.parametrize("user", ["ada", "a" * 200])
async def test_a_users_name_is_not_in_redis(sqlite: Database, redis: Redis, settings: Settings, user: str):
    """Places are counted by a hash."""
    async with running_site(settings, sqlite, redis) as site, site.welcomed(await ticket(site, user)):
        names = [name async for name in redis.scan_iter(match="*conns:*")]
        assert len(names) == 2
        assert not any(user.encode() in name for name in names)
