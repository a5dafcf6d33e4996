"""Keys that only pages of listed origins may use, at a gateway: sockets, calls, what is made of a key."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from billing.api import make_link_code
from billing.tenants import tenancy
from billing.tenants.key_edits import write_key_edit
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.server.site import Site, running_site
from tests.support.patience import PROMPT_SECONDS, LivedTime
from tests.support.redis import Redis

APP, WILD, OTHER = "https://app.acme.example", "https://*.acme.dev", "https://shop.example"
PREVIEW = "https://pr-7.acme.dev"


@pytest.fixture
async def listed(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A gateway that serves pages of some sites."""
    async with running_site(settings, sqlite, redis, public_origins=f"{APP},{PREVIEW},{OTHER}") as site:
        yield site


async def edited(site: Site, key: str, origins: list[str]) -> None:
    """Change a key's origins, as the operation does."""
    await write_key_edit(site.database, site.tenant, key.split("_")[1], origins=origins)
    await tenancy.tell_access(site.database, site.redis, site.tenant)


async def refused(site: Site, token: str, origin: str | None) -> str:
    """Why a socket of this page is refused with this token."""
    async with site.open(**({} if origin is None else {"Origin": origin})) as peer:
        await peer.tell("hello", v=1, token=token)
        error = await peer.hear()
        assert (error["t"], error["code"], error["retry"]) == ("error", "forbidden", False)
        assert await peer.closed() == 4504
    return error["message"]


async def let_in(site: Site, token: str, origin: str | None) -> None:
    """A socket of this page is served with this token."""
    async with site.open(**({} if origin is None else {"Origin": origin})) as peer:
        await peer.tell("hello", v=1, token=token)
        assert (await peer.hear())["t"] == "welcome"


async def test_a_socket_of_a_listed_page_is_served_and_no_other(listed: Site):
    """A refusal names the page that was seen and who can list it, and never a listed one. A program, which
    sends no Origin, is refused too; a key without origins is anybody's, as ever."""
    key = await listed.another_key(origins=[APP, WILD])
    for origin in (APP, PREVIEW):
        await let_in(listed, key, origin)
    told = await refused(listed, key, OTHER)
    assert f"'{OTHER}'" in told
    assert "admin" in told
    assert "acme" not in told
    assert "no Origin" in await refused(listed, key, None)
    assert "no Origin" in await refused(listed, key, None)
    for origin in (None, OTHER):
        await let_in(listed, listed.key, origin)


async def test_an_edit_holds_at_once_for_new_and_open_connections(listed: Site):
    """An open connection of a page that is not listed any more is closed within a second, that of another
    page stays."""
    key = await listed.another_key(origins=[APP])
    async with listed.open(Origin=APP) as peer, listed.open(Origin=PREVIEW) as stays:
        await peer.tell("hello", v=1, token=key)
        assert (await peer.hear())["t"] == "welcome"
        await edited(listed, key, [APP, PREVIEW])
        await stays.tell("hello", v=1, token=key)
        assert (await stays.hear())["t"] == "welcome"
        with LivedTime() as lived:
            await edited(listed, key, [PREVIEW])
            assert f"'{APP}'" in await refused(listed, key, APP)
            assert (await peer.hear("error"))["code"] == "forbidden"
            assert await peer.closed() == 4504
        print(f"closed {lived} after the edit")
        assert lived.seconds < PROMPT_SECONDS
        await let_in(listed, key, PREVIEW)
        await stays.quiet()
    await edited(listed, key, [])
    await let_in(listed, key, None)


async def test_what_is_made_of_such_a_key_is_for_its_pages_too(listed: Site):
    """A ticket, a pass and a fresh token for an open connection: each is refused to another page."""
    key = await listed.another_key(origins=[APP])
    bearer = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=listed.url, headers=bearer) as http:
        assert (await http.post("/v1/tickets", json={"user": "ann"})).status_code == 403
        asked = {"user": "ann", "history": True}
        made = [await http.post("/v1/tickets", json=asked, headers={"origin": APP}) for _ in range(3)]
        tickets = [each.json()["ticket"] for each in made]
        shown = {"authorization": f"Bearer {made[0].json()['history']}"}
        for origin, status in ({"origin": APP}, 200), ({"origin": OTHER}, 403), ({}, 403):
            reply = await http.get("/v1/conversations", headers=shown | origin)
            assert reply.status_code == status, origin
    assert f"'{OTHER}'" in await refused(listed, tickets[0], OTHER)
    await let_in(listed, tickets[1], APP)
    free = await listed.another_key(user="ann")
    async with listed.open(Origin=OTHER) as peer:
        await peer.tell("hello", v=1, token=free)
        assert (await peer.hear())["t"] == "welcome"
        await peer.tell("auth", token=tickets[2])
        assert (await peer.hear("error"))["code"] == "forbidden"
        assert await peer.closed() == 4504


async def test_calls_of_a_listed_page_are_answered_so_that_it_can_read_them(listed: Site):
    """CORS as for every site that the gateway lists; a refusal is readable too, so that it is no riddle."""
    key = await listed.another_key(origins=[APP])
    bearer = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=listed.url, headers=bearer) as http:
        for origin, status in ((APP, 200), (OTHER, 403)):
            reply = await http.get("/v1/models", headers={"origin": origin})
            assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (status, origin)
        error = reply.json()["error"]
        assert (error["code"], f"'{OTHER}'" in error["message"]) == ("forbidden", True)
        assert (await http.get("/v1/models")).status_code == 403
        twice = [("origin", APP), ("origin", OTHER)]
        assert (await http.get("/v1/models", headers=twice)).status_code == 403


async def test_who_signs_in_with_such_a_key_does_so_on_a_listed_page(listed: Site):
    """Where the gateway's own page is listed, its reads, which say no Origin, and its socket are served; once
    it is no more, the session is good for nothing but to sign out."""
    here = {"origin": listed.url}
    key = await listed.another_key(origins=[APP])
    id = (await write_key_edit(listed.database, listed.tenant, key.split("_")[1])).id
    async with httpx.AsyncClient(base_url=listed.url) as http:
        assert (await http.post("/v1/login", json={"key": key}, headers=here)).status_code == 403
        assert (await http.post("/v1/login", json={"key": key})).status_code == 403
        code = make_link_code(listed.settings.keyring, listed.tenant, id, "ann", now_ms())
        assert (await http.post("/v1/login", json={"code": code}, headers=here)).status_code == 403
        assert not http.cookies
        await edited(listed, key, [listed.url])
        assert (await http.post("/v1/login", json={"key": key}, headers=here)).status_code == 200
        assert (await http.get("/v1/conversations")).status_code == 200
        ticket = (await http.post("/v1/tickets", headers=here)).json()["ticket"]
        await let_in(listed, ticket, listed.url)
        await edited(listed, key, [APP])
        assert (await http.get("/v1/conversations")).status_code == 403
        assert (await http.post("/v1/tickets", headers=here)).status_code == 403
        assert (await http.post("/v1/logout", headers=here)).status_code == 200


async def test_a_page_of_the_gateways_own_reads_with_a_key(listed: Site):
    """Browsers say no Origin there, but mark the call as one of the same origin."""
    key = await listed.another_key(origins=[listed.url])
    bearer = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=listed.url, headers=bearer) as http:
        for site, status in (("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("none", 403)):
            reply = await http.get("/v1/models", headers={"sec-fetch-site": site})
            assert reply.status_code == status, site
