"""What a ticket is not: a key, another ticket, more than `chat`, good twice, or good for longer."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from billing.api import create_key, revoke_key
from billing.tenants import tenancy, users
from core.clock import now_ms
from core.signing import signed_text
from core.signing.signed_text import Keyring
from server.access import tickets
from tests.server.http_site import ORIGIN, HttpSite, bearer
from tests.support.redis import Redis

ROOT = Path(__file__).parents[2]
ROUTES = (
    ("GET", "/v1/me"),
    ("POST", "/v1/tickets"),
    ("GET", "/v1/sessions"),
    ("DELETE", "/v1/sessions/0"),
    ("GET", "/v1/limits"),
    ("GET", "/v1/models"),
    ("GET", "/v1/conversations"),
    ("GET", "/v1/conversations/0/messages"),
    ("DELETE", "/v1/conversations/0"),
)


def _unsealed(site: HttpSite, ticket: str) -> tickets.Ticket:
    found = tickets.unseal(ticket, site.edge.settings.keyring, now_ms())
    assert found is not None
    return found


async def test_a_ticket_signs_nobody_in(site: HttpSite):
    """Login takes API keys: a cookie for a ticket was the whole service key for 12 hours."""
    ticket = await site.ticket(user="ada")
    reply = await site.client.post("/v1/login", json={"key": ticket}, headers={"origin": ORIGIN})
    assert reply.status_code == 401
    assert "set-cookie" not in reply.headers
    assert await site.edge.auth.of_token(ticket) is not None  # and it was not used up by that


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_no_route_takes_a_ticket(site: HttpSite, method: str, path: str):
    """Tickets are for hello and auth: none reads history, and none mints its successor."""
    ticket = await site.ticket(user="ada")
    reply = await site.client.request(method, path, headers=bearer(ticket))
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "unauthorized")


async def test_a_service_keys_ticket_names_its_user(site: HttpSite):
    """Else all of its browsers were one owner: only a key that is marked so lets them be."""
    refused = await site.client.post("/v1/tickets", headers=site.bearer)
    assert (refused.status_code, "--users-optional" in refused.json()["error"]["message"]) == (400, True)
    principal = await site.edge.auth.of_token(await site.ticket(await site.another_key(shared=True)))
    assert principal is not None
    assert (principal.user, principal.fixed_user, principal.scopes) == ("", True, {"chat"})


async def test_a_ticket_has_chat_alone(site: HttpSite):
    """Whatever its key may do; more where its minting names it, and never more than the key has."""
    strong = await site.another_key(scopes=["chat", "requests:read", "requests:cancel"])
    principal = await site.edge.auth.of_token(await site.ticket(strong, user="ada"))
    assert principal is not None
    assert principal.scopes == {"chat"}
    named = await site.edge.auth.of_token(await site.ticket(strong, user="ada", scopes=["requests:read"]))
    assert named is not None
    assert named.scopes == {"requests:read"}
    more = {"user": "ada", "scopes": ["requests:read"]}
    assert (await site.client.post("/v1/tickets", headers=site.bearer, json=more)).status_code == 403


async def test_no_ticket_reads_usage(site: HttpSite):
    """Though its key may: whoever has one is a user, and usage is the tenant's."""
    for scope in ("usage:read", "usage:read:tenant"):
        key = await site.another_key(scopes=["chat", scope])
        body = {"user": "ada", "scopes": ["chat", scope]}
        reply = await site.client.post("/v1/tickets", headers=bearer(key), json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")
        assert "usage:read" in reply.json()["error"]["message"]
        named = await site.edge.auth.of_token(await site.ticket(key, user="ada"))
        assert named is not None
        assert named.scopes == {"chat"}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"user": "ada", "scope": ["chat"]}, "scope"),
        ({"User": "ada"}, "User"),
        ({"user": "ada", "scopes": []}, "scopes"),
        ({"user": "ada", "scopes": "chat"}, "scopes"),
        ({"user": "ada", "scopes": [1]}, "scopes"),
        ({"user": 1}, "user"),
        ({"user": "ada", "history": 1}, "history"),
        ({"user": "ada", "x" * 3000: 1}, "x" * 60),
        ({"user": "ada", "\x1b[31m": 1}, "\\x1b"),
    ],
)
async def test_a_body_that_is_not_understood_is_refused(site: HttpSite, body: dict[str, object], named: str):
    """By name, short, and without the control characters in it."""
    reply = await site.client.post("/v1/tickets", headers=site.bearer, json=body)
    assert reply.status_code == 400
    assert named in reply.json()["error"]["message"]
    assert len(reply.content) < 400


async def test_who_writes_redis_mints_no_ticket(site: HttpSite, redis: Redis):
    """What is in Redis only says that a ticket is spent: nothing written there lets anybody in."""
    ticket = await site.ticket(user="ada")
    assert await redis.keys("*") == []  # a ticket that nobody has shown is known to nobody
    assert await site.edge.auth.of_token(ticket) is not None
    (spent,) = await redis.keys(f"{{t:{site.tenant}}}ticket:*")
    assert await redis.pttl(spent) > 60_000
    assert await site.edge.auth.of_token(ticket) is None
    await redis.flushall()
    forged = msgspec.structs.replace(_unsealed(site, ticket), id="another", user="eve")
    body = msgspec.msgpack.encode(forged)
    for secret in (b"", b"parley", site.key.encode()):
        text = tickets.PREFIX + signed_text.seal(body, tickets.PURPOSE, Keyring(secret))
        assert await site.edge.auth.of_token(text) is None
    assert await redis.keys("*") == []  # and what is not ours leaves nothing behind


async def test_a_ticket_is_damaged_by_any_change(site: HttpSite):
    """Each half of it; and a text sealed for another purpose is no ticket."""
    ticket = await site.ticket(user="ada")
    body, _, signature = ticket.removeprefix(tickets.PREFIX).partition(".")
    wrong = [f"pt_{body}", f"pt_.{signature}", f"pt_{body}.", f"pt_{body[:-4]}.{signature}", "pt_", "pt_é.é"]
    packed = msgspec.msgpack.encode(_unsealed(site, ticket))
    wrong.append("pt_" + signed_text.seal(packed, b"another purpose", site.edge.settings.keyring))
    for text in wrong:
        assert await site.edge.auth.of_token(text) is None, text


async def test_a_ticket_ends_for_good(site: HttpSite):
    """60 s to be shown, an hour in all, and no later than the key it was made with."""
    now = now_ms()
    found = _unsealed(site, await site.ticket(user="ada"))
    assert now + 55_000 < found.opens_by_ms < now + 65_000
    assert now + 3_590_000 < found.ends_ms < now + 3_610_000
    keyring = site.edge.settings.keyring
    assert tickets.unseal(tickets.seal(found, keyring), keyring, found.opens_by_ms) is None
    ends_ms = now + 30_000
    short = _unsealed(site, await site.ticket(await site.another_key(expires_ms=ends_ms), user="ada"))
    assert (short.opens_by_ms, short.ends_ms) == (ends_ms, ends_ms)


async def test_settings_cannot_make_tickets_last(site: HttpSite):
    """Whatever PARLEY_TICKET_SECONDS and PARLEY_ACCESS_SECONDS say."""
    site.edge.settings.ticket_seconds = site.edge.settings.access_seconds = 10**6
    found = _unsealed(site, await site.ticket(user="ada"))
    assert found.opens_by_ms <= now_ms() + 60_000
    assert found.ends_ms <= now_ms() + 3_600_000


async def test_a_ticket_does_not_outlive_its_key(site: HttpSite, redis: Redis):
    """Its key may be revoked, or given a sooner end, between minting and use."""
    row, secret = await create_key(site.edge.db, site.tenant, site.project)
    ticket = await site.ticket(secret, user="ada")
    later = await site.ticket(secret, user="ada")
    async with site.edge.db.transaction() as session:
        row.expires_ms = now_ms() + 5_000
        session.add(row)
    principal = await site.edge.auth.of_token(ticket)
    assert principal is not None
    assert principal.access_ends_ms == row.expires_ms
    await revoke_key(site.edge.db, redis, site.tenant, row.id)
    assert await site.edge.auth.of_token(later) is None


@pytest.mark.parametrize("who", ["user", "project", "tenant"])
async def test_who_is_closed_does_not_come_in_by_an_unspent_ticket(site: HttpSite, redis: Redis, who: str):
    """At once, at a gateway that has heard nothing of it too."""
    db = site.edge.db
    ticket = await site.ticket(user="ada")
    assert not await site.edge.closed_users.has(site.tenant, "ada")  # it believes so for some seconds
    if who == "user":
        await users.close_user(db, redis, site.tenant, "ada")
    elif who == "project":
        await tenancy.close_project(db, redis, site.tenant, site.project)
    else:
        await tenancy.close_tenant(db, redis, site.tenant)
    assert await site.edge.auth.of_token(ticket) is None


async def test_a_fixed_users_ticket_is_theirs(site: HttpSite):
    """No path turns a fixed user into a free one, nor into another one."""
    annes = await site.another_key(user="anne")
    principal = await site.edge.auth.of_token(await site.ticket(annes))
    assert principal is not None
    assert await site.edge.users.name_of(site.tenant, principal.user) == "anne"
    assert principal.fixed_user
    body = {"user": "eve"}
    assert (await site.client.post("/v1/tickets", headers=bearer(annes), json=body)).status_code == 403
    of_key = await site.edge.auth.of_api_key(annes)
    assert of_key is not None
    ticket, _ = site.edge.auth.ticket(replace(of_key, fixed_user=False), "eve", {"chat"})
    assert await site.edge.auth.of_token(ticket) is None


def test_every_sealed_thing_has_a_purpose_of_its_own():
    """What proves one thing proves nothing else, and each that is in the code is looked at here."""
    said = [
        purpose
        for package in ("core", "billing", "engine", "server", "admin")
        for file in sorted((ROOT / package).rglob("*.py"))
        for purpose in re.findall(r'^\w*PURPOSE = b"([^"]+)"', file.read_text(), re.MULTILINE)
    ]
    assert len(said) == len(set(said)) >= 7
