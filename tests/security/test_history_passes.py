"""What a history pass reads and writes, and that it does nothing else."""

import pytest

from billing.api import revoke_key
from billing.tenants import users
from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7
from core.signing.signed_text import Keyring
from server.access import history_passes
from server.access.authorization import ConversationOwner
from server.conversations.store import Turn
from server.protocol.codes import ErrorCode, refusal
from tests.server.http_site import HttpSite, bearer
from tests.support.redis import Redis

LISTED = "https://shop.example"


async def _pass(site: HttpSite, user: str = "ann", history: bool | str = True) -> str:
    body = {"user": user, "history": history}
    reply = (await site.client.post("/v1/tickets", headers=site.bearer, json=body)).json()
    assert now_ms() + 590_000 < reply["history_expires_at"] < now_ms() + 610_000
    return reply["history"]


async def _conversation(site: HttpSite, owner: ConversationOwner) -> str:
    now = now_ms()
    turn = Turn(uuid7(now), uuid7(now), "hello", "smollm2", now)
    await site.edge.conversations.open_turn(site.tenant, owner, turn)
    return turn.conversation


async def test_it_reads_its_users_conversations_alone(site: HttpSite):
    """Not the key's, not another user's."""
    ann = await users.user_id(site.edge.db, site.tenant, "ann")
    anns = await _conversation(site, ConversationOwner(site.project, "", ann))
    others = [
        await _conversation(site, ConversationOwner(site.project, *of))
        for of in ((site.key_id, ""), ("", "bob"))
    ]
    shown = bearer(await _pass(site))
    listed = (await site.client.get("/v1/conversations", headers=shown)).json()["conversations"]
    assert [each["id"] for each in listed] == [anns]
    for id, status in ((anns, 200), *((other, 404) for other in others)):
        reply = await site.client.get(f"/v1/conversations/{id}/messages", headers=shown)
        assert reply.status_code == status


async def test_one_that_reads_writes_nothing(site: HttpSite):
    """It is told so; the chat is as it was."""
    ann = await users.user_id(site.edge.db, site.tenant, "ann")
    conversation = await _conversation(site, ConversationOwner(site.project, "", ann))
    shown = bearer(await _pass(site))
    for method, body in (("DELETE", None), ("PATCH", {"title": "mine"})):
        path = f"/v1/conversations/{conversation}"
        reply = await site.client.request(method, path, headers=shown, json=body)
        assert (reply.status_code, "only reads" in reply.json()["error"]["message"]) == (403, True)
    [row] = (await site.client.get("/v1/conversations", headers=shown)).json()["conversations"]
    assert row["title"] == "hello"


async def test_one_that_writes_renames_and_deletes_its_users_alone(site: HttpSite):
    """Another user's and the key's are unknown to it, as they are for reading."""
    ann = await users.user_id(site.edge.db, site.tenant, "ann")
    mine = await _conversation(site, ConversationOwner(site.project, "", ann))
    others = [
        await _conversation(site, ConversationOwner(site.project, *of))
        for of in ((site.key_id, ""), ("", "bob"))
    ]
    shown = bearer(await _pass(site, history="write"))

    async def called(method: str, id: str, body: object = None) -> int:
        return (
            await site.client.request(method, f"/v1/conversations/{id}", headers=shown, json=body)
        ).status_code

    assert await called("PATCH", mine, {"title": "  of \n rivers "}) == 200
    [row] = (await site.client.get("/v1/conversations", headers=shown)).json()["conversations"]
    assert row["title"] == "of rivers"
    for wrong in ("", " ", "x" * 81, "\0", None, 1):
        assert await called("PATCH", mine, {"title": wrong}) == 400
    assert await called("PATCH", mine, {"title": "x", "system": "y"}) == 400
    for other in others:
        assert [await called("PATCH", other, {"title": "x"}), await called("DELETE", other)] == [404, 404]
    assert [await called("DELETE", mine), await called("DELETE", mine)] == [200, 404]
    assert await called("PATCH", mine, {"title": "x"}) == 404


async def test_it_tells_its_users_models_and_limits(site: HttpSite):
    """As they are told to that user, without what the tenant does not show."""
    shown = bearer(await _pass(site))
    models = await site.client.get("/v1/models", headers=shown)
    limits = await site.client.get("/v1/limits", headers=shown)
    assert (models.status_code, limits.status_code) == (200, 200)
    assert limits.json()["budgets"] == []
    assert all("prices" not in each for each in models.json()["models"])


@pytest.mark.parametrize("history", [True, "write"])
async def test_it_does_nothing_else(site: HttpSite, history: bool | str):
    """No other route, no sign-in, no connection; and no ticket is one."""
    token = await _pass(site, history=history)
    for method, path in (
        ("POST", "/v1/tickets"),
        ("GET", "/v1/me"),
        ("GET", "/v1/sessions"),
        ("DELETE", f"/v1/sessions/{uuid7(now_ms())}"),
    ):
        reply = await site.client.request(method, path, headers=bearer(token))
        assert reply.status_code == 401, path
    assert (await site.client.post("/v1/login", json={"key": token})).status_code == 401
    assert await site.edge.auth.of_token(token) is None
    ticket = await site.ticket(user="ann")
    for wrong in (ticket, "ph_" + ticket.removeprefix("pt_"), token[:-1], "ph_", "ph_."):
        reply = await site.client.get("/v1/conversations", headers=bearer(wrong))
        assert reply.status_code == 401, wrong


async def test_it_is_over_after_ten_minutes_and_with_its_key_or_user(site: HttpSite, redis: Redis):
    """It is sealed: no other secret makes one."""
    keyring, now = site.edge.settings.keyring, now_ms()
    token = await _pass(site)
    found = history_passes.unseal(token, keyring, now)
    assert found is not None
    assert history_passes.unseal(token, keyring, found.ends_ms) is None
    forged = history_passes.seal(found, Keyring(b"guessed"))
    assert await site.edge.auth.of_history_pass(forged) is None
    await users.close_user(site.edge.db, redis, site.tenant, "ann")
    assert await site.edge.auth.of_history_pass(token) is None
    bobs = await _pass(site, "bob")
    assert await site.edge.auth.of_history_pass(bobs) is not None
    await revoke_key(site.edge.db, redis, site.tenant, site.key_id)
    assert await site.edge.auth.of_history_pass(bobs) is None


async def test_who_is_nobody_has_no_history(site: HttpSite):
    """A shared key's ticket that names no user reads no history; a bound key reads its own user's."""
    shared = bearer(await site.another_key(shared=True))
    reply = await site.client.post("/v1/tickets", headers=shared, json={"history": True})
    assert (reply.status_code, "history" in reply.json()["error"]["message"]) == (400, True)
    annes = bearer(await site.another_key(user="anne"))
    reply = await site.client.post("/v1/tickets", headers=annes, json={"history": True})
    principal = await site.edge.auth.of_history_pass(reply.json()["history"])
    assert principal is not None
    assert await site.edge.users.name_of(site.tenant, principal.user) == "anne"
    assert (principal.fixed_user, principal.scopes) == (True, frozenset())


@pytest.mark.parametrize("origin", [LISTED, "https://evil.example", "null"])
@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/conversations", "GET"),
        ("/v1/conversations/x/messages", "GET"),
        ("/v1/conversations/x", "PATCH, DELETE"),
        ("/v1/models", "GET"),
        ("/v1/limits", "GET"),
    ],
)
async def test_listed_sites_read_and_no_others(site: HttpSite, origin: str, path: str, methods: str):
    """Without credentials: no cookie is ever asked for. Refusals can be read by them, too."""
    site.edge.settings.public_origins = f"{LISTED}/, https://other.example"
    allowed = origin if origin == LISTED else None
    method = methods.split(", ")[-1]
    asked = {"origin": origin, "access-control-request-method": method}
    replies = [
        await site.client.options(path, headers=asked),
        await site.client.request(method, path, headers={"origin": origin, **bearer(await _pass(site))}),
        await site.client.request(method, path, headers={"origin": origin, **bearer("ph_wrong")}),
    ]
    for reply in replies:
        assert reply.headers.get("access-control-allow-origin") == allowed
        assert "access-control-allow-credentials" not in reply.headers
        assert "origin" in reply.headers["vary"].lower()
    told = (replies[0].headers.get(f"access-control-allow-{of}") for of in ("headers", "methods"))
    assert list(told) == (["authorization, content-type", methods] if allowed else [None, None])
    tickets = await site.client.options("/v1/tickets", headers=asked)
    assert "access-control-allow-origin" not in tickets.headers


async def test_listed_sites_read_every_refusal(site: HttpSite, monkeypatch: pytest.MonkeyPatch):
    """Of a rate, of a fault of ours, of a method and a path that are none: it would look like a lost
    network."""
    site.edge.settings.public_origins = LISTED
    headers = {"origin": LISTED, **bearer(await _pass(site))}

    async def failing(*_: object) -> None:
        raise RuntimeError("broken")

    asked = [("PUT", "/v1/conversations", 405), ("GET", "/v1/conversations/x/y/z", 404)]
    monkeypatch.setattr(site.edge.conversations, "page", failing)
    asked += [("GET", "/v1/conversations", 500)]
    for method, path, status in asked:
        reply = await site.client.request(method, path, headers=headers)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (status, LISTED)
    monkeypatch.setattr(site.edge.rates, "call", raising)
    reply = await site.client.get("/v1/models", headers=headers)
    assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (429, LISTED)
    assert reply.headers["access-control-expose-headers"] == "retry-after"


def raising(_address: str) -> None:
    """An address that calls too often."""
    raise Refused(refusal(ErrorCode.RATE_LIMITED, "slow down", after_ms=1000))


async def test_a_pass_is_told_to_end_no_later_than_its_key(site: HttpSite):
    """A page that believes the time it was told is not surprised."""
    ends_ms = now_ms() + 60_000
    headers = bearer(await site.another_key(expires_ms=ends_ms))
    body = {"user": "ann", "history": True}
    reply = await site.client.post("/v1/tickets", headers=headers, json=body)
    assert reply.json()["history_expires_at"] == ends_ms
