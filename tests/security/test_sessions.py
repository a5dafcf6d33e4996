"""Browsers that are signed in: as whom, for how long, seen by whom, and ended by what."""

from collections.abc import Awaitable, Callable

import pytest

from billing.api import (
    create_key,
    create_project,
    end_session,
    make_link_code,
    principal_of_session,
    revoke_key,
)
from billing.audit.log import list_rows
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey
from billing.tenants import sessions, tenancy, users
from core.clock import now_ms
from core.ids import uuid7
from core.signing.signed_text import Keyring
from server.access.authorization import ConversationOwner
from server.conversations.store import Turn
from tests.server.http_site import ORIGIN, HttpSite, bearer
from tests.support.redis import Redis

OWN = {"origin": ORIGIN}
End = Callable[[HttpSite, Redis], Awaitable[None]]
SCOPES = ["chat", "requests:read", "requests:cancel"]


async def _sign_in(site: HttpSite, proof: dict[str, str], agent: str = "a browser") -> tuple[str, str]:
    """The token of a browser that signs in, and its user. The client keeps no cookie of it."""
    reply = await site.client.post("/v1/login", json=proof, headers={**OWN, "user-agent": agent})
    assert reply.status_code == 200, reply.text
    token = reply.cookies["parley_session"]
    site.client.cookies.clear()
    return token, reply.json()["user"]


def _with(token: str) -> dict[str, str]:
    return {"cookie": f"parley_session={token}", **OWN}


async def _row(site: HttpSite, token: str) -> BrowserSession:
    (row,) = [
        row
        for row in await sessions.list_sessions(site.edge.db, site.tenant)
        if row.token_sha256 == sessions._digest(token)  # pyright: ignore[reportPrivateUsage]
    ]
    return row


async def test_who_signs_in_and_out_is_in_the_audit_log(site: HttpSite):
    """As the user, in the tenant's own chain; not from where, which is gone with the session."""
    token, user = await _sign_in(site, {"code": site.code("bob")})
    id = (await _row(site, token)).id
    await site.client.post("/v1/logout", headers=_with(token))
    rows = [row for row in await list_rows(site.edge.db, site.tenant) if row.action.startswith("session.")]
    assert [(row.action, row.target) for row in rows[::-1]] == [("session.open", id), ("session.end", id)]
    assert (rows[-1].author, rows[-1].source) == (user, "api")
    assert "address" not in rows[-1].after


@pytest.mark.parametrize("scopes", [["chat"], SCOPES])
async def test_who_signs_in_is_one_user(site: HttpSite, scopes: list[str]):
    """Whatever proves it: the link's user, the key's user, else a user of the browser's own; never the whole
    service key, and never with more than `chat`."""
    row, service = await create_key(site.edge.db, site.tenant, site.project, scopes=scopes, shared=True)
    annes = await site.another_key(user="anne", scopes=scopes)
    signed_in: list[str] = []
    bob = await users.user_id(site.edge.db, site.tenant, "bob")
    for proof in ({"key": service}, {"key": service}, {"key": annes}, {"code": site.code(bob, row.id)}):
        token, user = await _sign_in(site, proof)
        principal = await site.edge.auth.of_browser(token)
        assert principal is not None
        named = await site.edge.users.name_of(site.tenant, principal.user)
        assert (named, principal.fixed_user, principal.scopes) == (user, True, {"chat"})
        assert (principal.shared, principal.session) == (False, (await _row(site, token)).id)
        ticket = (await site.client.post("/v1/tickets", headers=_with(token))).json()["ticket"]
        at_hello = await site.edge.auth.of_token(ticket)
        assert at_hello is not None
        assert (at_hello.user, at_hello.fixed_user, at_hello.scopes) == (principal.user, True, {"chat"})
        signed_in.append(user)
    assert signed_in[0].startswith("browser-")
    assert signed_in[0] != signed_in[1]
    assert signed_in[2:] == ["anne", "bob"]


@pytest.mark.parametrize(
    ("scopes", "what"),
    [
        (["usage:read:tenant"], "read what your organization uses and costs (/v1/usage, /v1/costs)"),
        (
            ["requests:cancel", "requests:read"],
            "stop other callers' requests and read other callers' requests",
        ),
    ],
)
async def test_a_key_that_cannot_chat_signs_nobody_in(site: HttpSite, scopes: list[str], what: str):
    """By itself or by a link: it is told what the key is for, and no session begins."""
    row, key = await create_key(site.edge.db, site.tenant, site.project, scopes=scopes)
    for proof in ({"key": key}, {"code": site.code("bob", row.id)}):
        reply = await site.client.post("/v1/login", json=proof, headers=OWN)
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "forbidden")
        assert reply.json()["error"]["message"] == (
            f"this key is for programs that {what}; it cannot chat: ask for one with the scope chat"
        )
    assert await sessions.list_sessions(site.edge.db, site.tenant) == []


@pytest.mark.parametrize("body", [{"user": "eve"}, {"user": ""}, {"scopes": ["requests:read"]}])
async def test_a_browser_is_nobody_else(site: HttpSite, body: dict[str, object]):
    """Its tickets name no other user, and no scope that it has not."""
    token, _ = await _sign_in(site, {"key": await site.another_key(scopes=SCOPES, shared=True)})
    assert (await site.client.post("/v1/tickets", headers=_with(token), json=body)).status_code in (400, 403)


async def test_a_browser_of_a_service_key_reads_its_own_chats_alone(site: HttpSite):
    """It saw every user's that the key had."""
    now = now_ms()
    for owner in (
        ConversationOwner(site.project, site.key_id, ""),
        ConversationOwner(site.project, "", "ann"),
    ):
        turn = Turn(uuid7(now), uuid7(now), "hello", "smollm2", now)
        await site.edge.conversations.open_turn(site.tenant, owner, turn)
    token, _ = await _sign_in(site, {"key": site.key})
    listed = await site.client.get("/v1/conversations", headers=_with(token))
    assert listed.json()["conversations"] == []
    ann, _ = await _sign_in(site, {"code": site.code("ann")})
    again, _ = await _sign_in(site, {"code": site.code("ann")})
    for browser in (ann, again):  # what she keeps is there after signing in again
        listed = await site.client.get("/v1/conversations", headers=_with(browser))
        assert len(listed.json()["conversations"]) == 1


async def test_only_the_digest_is_kept(site: HttpSite):
    """Whoever reads the table can be nobody; what was signed by an older version is nobody's, too."""
    token, _ = await _sign_in(site, {"key": site.key})
    row = await _row(site, token)
    assert token not in repr(row.model_dump())
    for wrong in (row.token_sha256, row.id, "", token[:-1], token + "x", "x" * 5000, "eyJhIjoxfQ.c2ln"):
        assert await principal_of_session(site.edge.db, wrong) is None


async def _revoke(site: HttpSite, redis: Redis) -> None:
    await revoke_key(site.edge.db, redis, site.tenant, site.key_id)


async def _close_user(site: HttpSite, redis: Redis) -> None:
    await users.close_user(site.edge.db, redis, site.tenant, "ann")


async def _close_project(site: HttpSite, redis: Redis) -> None:
    await tenancy.close_project(site.edge.db, redis, site.tenant, site.project)


async def _close_tenant(site: HttpSite, redis: Redis) -> None:
    await tenancy.close_tenant(site.edge.db, redis, site.tenant)


async def _time(site: HttpSite, _redis: Redis) -> None:
    async with site.edge.db.transaction() as session:
        (row,) = await sessions.list_sessions(site.edge.db, site.tenant)
        row.ends_ms = now_ms()
        session.add(row)


async def _end(site: HttpSite, redis: Redis) -> None:
    (row,) = await sessions.list_sessions(site.edge.db, site.tenant)
    assert await end_session(site.edge.db, redis, site.tenant, row.id)
    assert not await end_session(site.edge.db, redis, site.tenant, row.id)


@pytest.mark.parametrize("ends", [_revoke, _close_user, _close_project, _close_tenant, _time, _end])
async def test_what_ends_a_session(site: HttpSite, redis: Redis, ends: End):
    """On the next call, with every ticket that it got and did not use."""
    ann = await users.user_id(site.edge.db, site.tenant, "ann")
    token, _ = await _sign_in(site, {"code": site.code(ann)})
    ticket = (await site.client.post("/v1/tickets", headers=_with(token))).json()["ticket"]
    assert (await site.client.get("/v1/me", headers=_with(token))).json()["user"] == "ann"
    await ends(site, redis)
    status = 402 if ends is _close_tenant else 401
    assert (await site.client.get("/v1/me", headers=_with(token))).status_code == status
    assert await site.edge.auth.of_token(ticket) is None


async def test_logout_ends_this_browser_and_no_other(site: HttpSite, redis: Redis):
    """The cookie that was copied before is worth nothing after."""
    mine, _ = await _sign_in(site, {"code": site.code("ann")})
    other, _ = await _sign_in(site, {"code": site.code("ann")})
    ticket = (await site.client.post("/v1/tickets", headers=_with(mine))).json()["ticket"]
    reply = await site.client.post("/v1/logout", headers=_with(mine))
    assert 'parley_session=""' in reply.headers["set-cookie"]
    assert (await site.client.get("/v1/me", headers=_with(mine))).status_code == 401
    assert await site.edge.auth.of_token(ticket) is None
    assert (await site.client.get("/v1/me", headers=_with(other))).status_code == 200
    assert (await site.client.post("/v1/logout")).status_code == 200  # nobody's


async def test_sessions_are_listed_to_their_user_and_ended_by_them(site: HttpSite):
    """With when, where and what; another user's id is answered as one that was never."""
    phone, _ = await _sign_in(site, {"code": site.code("ann")}, "phone\x07 " + "x" * 400)
    laptop, _ = await _sign_in(site, {"code": site.code("ann")})
    bobs, _ = await _sign_in(site, {"code": site.code("bob")})
    listed = (await site.client.get("/v1/sessions", headers=_with(laptop))).json()["sessions"]
    assert [(each["current"], each["user"]) for each in listed] == [(True, "ann"), (False, "ann")]
    assert listed[1]["agent"] == ("phone " + "x" * 400)[:200]
    assert listed[1]["address"]
    assert listed[1]["made_ms"] <= listed[1]["seen_ms"] < listed[1]["ends_ms"]
    path = f"/v1/sessions/{listed[1]['id']}"
    unknown = await site.client.delete(f"/v1/sessions/{uuid7(now_ms())}", headers=_with(bobs))
    others = await site.client.delete(path, headers=_with(bobs))
    assert (others.status_code, others.content) == (unknown.status_code, unknown.content)
    assert (await site.client.get("/v1/me", headers=_with(phone))).status_code == 200
    assert (await site.client.delete(path, headers=_with(laptop))).status_code == 200
    assert (await site.client.get("/v1/me", headers=_with(phone))).status_code == 401
    of_key = (await site.client.get("/v1/sessions", headers=site.bearer)).json()["sessions"]
    assert [each["user"] for each in of_key] == ["bob", "ann"]  # a service key sees whom it let in
    other = bearer(await site.another_key())
    assert (await site.client.get("/v1/sessions", headers=other)).json()["sessions"] == []


async def test_a_session_is_never_longer_than_its_key(site: HttpSite):
    """Nor its tickets."""
    ends_ms = now_ms() + 30_000
    token, _ = await _sign_in(site, {"key": await site.another_key(expires_ms=ends_ms)})
    principal = await site.edge.auth.of_browser(token)
    assert principal is not None
    assert principal.access_ends_ms == ends_ms
    row = await _row(site, token)
    assert row.ends_ms == ends_ms
    async with site.edge.db.transaction() as session:  # its key is made to end sooner
        key = await session.get(ApiKey, (site.tenant, row.key_id))
        assert key is not None
        key.expires_ms = ends_ms - 10_000
        session.add(key)
    principal = await site.edge.auth.of_browser(token)
    assert principal is not None
    assert principal.access_ends_ms == ends_ms - 10_000


async def test_when_a_browser_was_last_seen_is_noted_once_a_minute(site: HttpSite):
    """By its user's list of browsers they know which one is not theirs."""
    token, _ = await _sign_in(site, {"code": site.code("ann")})
    made_ms = (await _row(site, token)).seen_ms
    for before_ms, noted in ((sessions.SEEN_EVERY_MS // 2, False), (2 * sessions.SEEN_EVERY_MS, True)):
        async with site.edge.db.transaction() as session:
            row = await _row(site, token)
            row.seen_ms = made_ms - before_ms
            session.add(row)
        await site.client.get("/v1/me", headers=_with(token))
        assert ((await _row(site, token)).seen_ms >= made_ms) is noted


@pytest.mark.parametrize("headers", [{}, {"origin": "https://evil.test"}, {"origin": "null"}])
async def test_a_cookie_writes_from_its_own_page_alone(site: HttpSite, headers: dict[str, str]):
    """Browsers send the Origin with every write; what has none or another one does nothing."""
    token, _ = await _sign_in(site, {"key": site.key})
    cookie = {"cookie": f"parley_session={token}"}
    for method, path in (
        ("POST", "/v1/tickets"),
        ("DELETE", "/v1/sessions/x"),
        ("DELETE", "/v1/conversations/x"),
    ):
        reply = await site.client.request(method, path, headers={**cookie, **headers})
        assert reply.status_code == 403, path


@pytest.mark.parametrize("origin", ["https://evil.test", "null"])
async def test_another_sites_page_signs_nobody_in_or_out(site: HttpSite, origin: str):
    """In as somebody of its choice, who then reads what is typed; or out, again and again."""
    evil = {"origin": origin}
    for proof in ({"key": site.key}, {"code": site.code("eve")}):
        reply = await site.client.post("/v1/login", json=proof, headers=evil)
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
    token, _ = await _sign_in(site, {"key": site.key})
    reply = await site.client.post("/v1/logout", headers={**_with(token), **evil})
    assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
    assert (await site.client.get("/v1/me", headers=_with(token))).status_code == 200


async def test_a_users_browsers_are_those_of_one_project(site: HttpSite):
    """Each project's page lists and ends its own: a user of several is in each by itself."""
    other = await create_project(site.edge.db, site.tenant, "other")
    row, _ = await create_key(site.edge.db, site.tenant, other.id)
    ann = await users.user_id(site.edge.db, site.tenant, "ann")
    here, _ = await _sign_in(site, {"code": site.code(ann)})
    there, _ = await _sign_in(site, {"code": site.code(ann, row.id)})
    id = (await _row(site, there)).id
    listed = (await site.client.get("/v1/sessions", headers=_with(here))).json()["sessions"]
    assert [(each["current"], each["user"]) for each in listed] == [(True, "ann")]
    await site.client.delete(f"/v1/sessions/{id}", headers=_with(here))
    assert (await site.client.get("/v1/me", headers=_with(there))).status_code == 200


@pytest.mark.parametrize(
    ("scheme", "tls", "secure"),
    [("http", "auto", False), ("https", "auto", True), ("http", "on", True)],
)
async def test_under_tls_the_cookie_is_for_this_host_alone(
    site: HttpSite, scheme: str, tls: str, secure: bool
):
    """Over plain loopback it has neither prefix nor Secure, and works. Strict and unreadable in both."""
    site.edge.settings.tls = "on" if tls == "on" else "auto"
    url = ORIGIN.replace("http", scheme)
    reply = await site.client.post(f"{url}/v1/login", json={"key": site.key}, headers={"origin": url})
    name, _, facts = reply.headers["set-cookie"].partition("=")
    assert name == ("__Host-parley_session" if secure else "parley_session")
    assert ("Secure" in facts) is secure
    lasts = f"Max-Age={site.edge.settings.cookie_seconds}"
    told = {each.strip() for each in facts.split(";")}
    assert {"HttpOnly", "Path=/", "SameSite=strict", lasts} <= told
    assert "domain" not in facts.lower()
    cookie = {"cookie": f"{name}={facts.partition(';')[0]}"}
    assert (await site.client.get(f"{url}/v1/me", headers=cookie)).json()["tenant"] == site.tenant
    neighbours = {"cookie": f"parley_session={facts.partition(';')[0]}"}  # set by another host of the domain
    me = (await site.client.get(f"{url}/v1/me", headers=neighbours)).json()
    assert (me["tenant"] is None) is secure
    dropped = await site.client.post(f"{url}/v1/logout", headers=cookie)
    assert dropped.headers["set-cookie"].startswith(f'{name}=""')
    again = {each.strip() for each in dropped.headers["set-cookie"].split(";")}
    assert told & {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= again, "else a browser keeps it"


async def test_who_writes_redis_makes_no_sign_in_link(site: HttpSite, redis: Redis):
    """A code is sealed: what is in Redis only says that it is spent."""
    code = site.code("ann")
    assert await redis.keys("*") == []
    assert (await site.client.post("/v1/login", json={"code": code}, headers=OWN)).status_code == 200
    assert await redis.keys("parley:code:*") != []
    assert (await site.client.post("/v1/login", json={"code": code}, headers=OWN)).status_code == 401
    forged = make_link_code(Keyring(b"guessed"), site.tenant, site.key_id, "ann", now_ms())
    late = make_link_code(site.edge.settings.keyring, site.tenant, site.key_id, "ann", now_ms() - 3_600_001)
    for wrong in (forged, late, code[:-1], ""):
        assert (await site.client.post("/v1/login", json={"code": wrong}, headers=OWN)).status_code == 401


async def test_a_link_names_nobody_but_its_keys_user(site: HttpSite):
    """A key that is bound to a user signs nobody else in."""
    row, _ = await create_key(site.edge.db, site.tenant, site.project, user="anne")
    proof = {"code": site.code("eve", row.id)}
    assert (await site.client.post("/v1/login", json=proof, headers=OWN)).status_code == 401


async def test_what_is_said_at_sign_in_is_one_text_for_all_causes(site: HttpSite, redis: Redis):
    """Of a key, a link and a cookie: what may have happened, and what to do; not which, nor whether there was
    any."""

    async def said(proof: dict[str, str]) -> str:
        reply = await site.client.post("/v1/login", json=proof, headers=OWN)
        assert reply.status_code == 401
        return reply.text

    db, expired = site.edge.db, now_ms() - 1
    other = await create_project(db, site.tenant, "other")
    rows = [await create_key(db, site.tenant, project) for project in (site.project, site.project, other.id)]
    cookies = [(await _sign_in(site, {"key": secret}))[0] for _, secret in rows]
    codes = [site.code("ann", row.id) for row, _ in rows]
    await revoke_key(db, redis, site.tenant, rows[0][0].id)
    async with db.transaction() as session:
        late = await session.get(ApiKey, (site.tenant, rows[1][0].id))
        assert late is not None
        late.expires_ms = expired
        session.add(late)
    await tenancy.close_project(db, redis, site.tenant, other.id)
    keys = {
        await said({"key": secret})
        for secret in (*(secret for _, secret in rows), f"pk_{'0' * 12}_{'0' * 48}", "x")
    }
    links = {await said({"code": code}) for code in (*codes, "x")}
    pages = {(await site.client.get("/v1/me", headers=_with(token))).text for token in (*cookies, "x" * 43)}
    assert (len(keys), len(links), len(pages)) == (1, 1, 1)
    for text, advice in zip(
        (*keys, *links, *pages), ("for a new key", "ask for a new one", "sign in again"), strict=True
    ):
        assert advice in text
        assert "PARLEY" not in text
