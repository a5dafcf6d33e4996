"""Whom a reply is for, as a page reads it, and what becomes of who was signed in before."""

from collections.abc import AsyncIterator

import httpx
import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from server.http.person import HEADER
from tests.server.http_site import ORIGIN, HttpSite, http_site
from tests.support.redis import Redis

OWN = {"origin": ORIGIN}


@pytest.fixture
async def site(database: Database, redis: Redis, settings: Settings) -> AsyncIterator[HttpSite]:
    """The routes over real SQL and Valkey."""
    async with http_site(database, redis, settings) as site:
        yield site


async def _login(site: HttpSite, proof: dict[str, str]) -> httpx.Response:
    reply = await site.client.post("/v1/login", json=proof, headers=OWN)
    assert reply.status_code == 200, reply.text
    assert reply.json()["person"] == reply.headers[HEADER]
    return reply


async def test_each_reply_says_whom_it_is_for(site: HttpSite):
    """The same id for all proofs of one person, refusals too; another one for everybody else, also of another
    project; nobody has none. It is no name."""
    nobody = await site.client.get("/v1/me")
    assert (nobody.json()["person"], HEADER in nobody.headers) == (None, False)
    ann = (await _login(site, {"code": site.code("ann")})).headers[HEADER]
    assert (await site.client.get("/v1/me")).json()["person"] == ann
    for path in (
        "/v1/me",
        "/v1/models",
        "/v1/conversations",
        "/v1/sessions",
        "/v1/conversations/none/messages",
    ):
        assert (await site.client.get(path)).headers[HEADER] == ann
    assert (await site.client.post("/v1/tickets", headers=OWN)).headers[HEADER] == ann
    again = (await _login(site, {"code": site.code("ann")})).headers[HEADER]
    bob = (await _login(site, {"code": site.code("bob")})).headers[HEADER]
    site.client.cookies.clear()
    service = (await site.client.get("/v1/models", headers=site.bearer)).headers[HEADER]
    assert (again, len({ann, bob, service})) == (ann, 3)
    assert HEADER not in (await site.client.get("/v1/models")).headers


async def test_signing_in_as_another_ends_the_former_session(site: HttpSite):
    """With its tickets: no cookie is left that could sign it out. Who signs in once more as the same keeps
    what is open in other tabs."""

    async def welcome(token: str) -> bool:
        return await site.edge.auth.of_token(token) is not None

    async def ticket() -> str:
        return (await site.client.post("/v1/tickets", headers=OWN)).json()["ticket"]

    await _login(site, {"code": site.code("ann")})
    first = await ticket()
    await _login(site, {"code": site.code("ann")})
    second, third = await ticket(), await ticket()
    assert await welcome(first)
    assert await welcome(second)
    await _login(site, {"code": site.code("bob")})
    assert not await welcome(third)
    assert await welcome(await ticket())
