"""Whoever signs a browser out, gateways hear of it at once: its open WebSocket ends with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from redis.asyncio.client import PubSub

from billing.api import KEY_REVOKED, SESSION_ENDED, Principal, end_session, revoke_key
from billing.tenants.tenancy import CONTROL_CHANNEL, ControlNews, publish_news
from tests.server.http_site import ORIGIN, HttpSite
from tests.support.patience import soon
from tests.support.redis import Redis

OWN = {"origin": ORIGIN}
LAST = "last"
End = Callable[[HttpSite, str, Principal], Awaitable[str]]


async def _signed_in(site: HttpSite) -> tuple[str, Principal]:
    """The cookie of one more browser of Ann's, and what it may."""
    reply = await site.client.post("/v1/login", json={"code": site.code("ann")}, headers=OWN)
    assert reply.status_code == 200, reply.text
    site.client.cookies.clear()
    token = reply.cookies["parley_session"]
    principal = await site.edge.auth.of_browser(token)
    assert principal is not None
    return f"parley_session={token}", principal


async def _heard(listener: PubSub, redis: Redis) -> list[ControlNews]:
    """All news until now."""
    await publish_news(redis, "", LAST)
    heard: list[ControlNews] = []
    while True:
        message = await soon(listener.get_message(timeout=None))
        assert message is not None
        if message["type"] != "message":
            continue
        packed: Any = message["data"]
        news = msgspec.json.decode(packed, type=ControlNews)
        if news.kind == LAST:
            return heard
        heard.append(news)


async def _by_its_page(site: HttpSite, cookie: str, mine: Principal) -> str:
    reply = await site.client.post("/v1/logout", headers={"cookie": cookie, **OWN})
    assert reply.status_code == 200
    return mine.session


async def _by_another_browser(site: HttpSite, cookie: str, mine: Principal) -> str:
    _, other = await _signed_in(site)
    headers = {"cookie": cookie, **OWN}
    reply = await site.client.delete(f"/v1/sessions/{other.session}", headers=headers)
    assert reply.status_code == 200
    return other.session


async def _by_the_operator(site: HttpSite, cookie: str, mine: Principal) -> str:
    """What `parley sessions revoke` calls; once it is gone there is no more to tell."""
    for expected in (True, False):
        assert await end_session(site.edge.db, site.edge.redis, site.tenant, mine.session) is expected
    return mine.session


async def _by_the_cap(site: HttpSite, cookie: str, mine: Principal) -> str:
    site.edge.settings.sessions_per_user_max = 1
    await _signed_in(site)
    return mine.session


@pytest.mark.parametrize("end", [_by_its_page, _by_another_browser, _by_the_operator, _by_the_cap])
async def test_gateways_hear_that_a_browser_was_signed_out(site: HttpSite, redis: Redis, end: End):
    """Once, and of no other."""
    cookie, mine = await _signed_in(site)
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        ended = await end(site, cookie, mine)
        heard = await _heard(listener, redis)
    assert heard == [ControlNews(SESSION_ENDED, site.tenant, ended)]


async def test_gateways_hear_that_a_browsers_key_was_revoked(site: HttpSite, redis: Redis):
    """Its browsers' connections end by that, as all that came in by the key."""
    _, mine = await _signed_in(site)
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await revoke_key(site.edge.db, redis, site.tenant, mine.key)
        heard = await _heard(listener, redis)
    assert heard == [ControlNews(KEY_REVOKED, site.tenant, site.key_id)]
