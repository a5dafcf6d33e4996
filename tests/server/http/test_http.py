"""The HTTP routes beside the socket: sign-in, tickets, models, conversations, and whose they are."""

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from billing.api import create_key, create_project, create_tenant, revoke_key
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from core.sql.database import Database
from server.access.authorization import ConversationOwner, user_of
from server.conversations import store
from server.conversations.history import HistoryBounds
from server.conversations.store import RecordedAnswer, Turn
from server.http import conversation_routes
from server.http.app import routes
from server.http.health import Health
from tests.server.http_site import ORIGIN, http_site
from tests.server.http_site import HttpSite as Site
from tests.support.redis import Redis


@pytest.fixture
async def site(database: Database, redis: Redis, settings: Settings) -> AsyncIterator[Site]:
    """The routes over real SQL and Valkey."""
    async with http_site(database, redis, settings) as site:
        yield site


async def test_a_code_signs_in_once(site: Site, redis: Redis):
    """The link that `parley up` prints works once; the cookie is HttpOnly and SameSite=Strict."""
    code = site.code("ann")
    first = await site.client.post("/v1/login", json={"code": code}, headers={"origin": ORIGIN})
    again = await site.client.post("/v1/login", json={"code": code}, headers={"origin": ORIGIN})
    assert first.status_code == 200
    assert "httponly" in first.headers["set-cookie"].lower()
    assert "samesite=strict" in first.headers["set-cookie"].lower()
    assert again.status_code == 401
    assert (await site.client.get("/v1/me")).json()["tenant"] == site.tenant


async def test_a_ticket_works_once(site: Site):
    """A ticket fixes its user and is used up by the first who shows it."""
    reply = await site.client.post("/v1/tickets", headers=site.bearer, json={"user": "ada"})
    ticket = reply.json()["ticket"]
    assert reply.json()["expires_at"] > now_ms()
    principal = await site.edge.auth.of_token(ticket)
    assert principal is not None
    assert (principal.fixed_user, principal.tenant) == (True, site.tenant)
    assert await site.edge.users.name_of(site.tenant, principal.user) == "ada"
    assert await site.edge.auth.of_token(ticket) is None


@pytest.mark.parametrize("user", ["free\x00rider", "\x1b[2J", "a\u202eb", " a", "x" * 201, 5, None, ["a"]])
async def test_a_ticket_for_no_name_is_refused(site: Site, user: object):
    """What no bill could be written for is nobody; the refusal says what a name is."""
    reply = await site.client.post("/v1/tickets", headers=site.bearer, json={"user": user})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request")
    assert reply.json()["error"]["message"] == (
        "user: expected a name of 1 to 200 printable characters, no space at the ends"
    )


async def test_a_ticket_is_for_a_name_in_one_form(site: Site):
    """Composed or decomposed, the bearer is the same user; a bound key may name its user in either."""
    reply = await site.client.post("/v1/tickets", headers=site.bearer, json={"user": "Zoe\u0308"})
    principal = await site.edge.auth.of_token(reply.json()["ticket"])
    assert principal is not None
    own = await site.edge.users.name_of(site.tenant, principal.user)
    assert own == "Zo\u00eb"
    assert user_of(principal, {"user": "Zoe\u0308"}, None, own) == own


async def test_another_sites_page_gets_no_ticket(site: Site, redis: Redis):
    """A cookie together with a foreign Origin is refused: no cross-site request can act for a user."""
    code = site.code("ann")
    await site.client.post("/v1/login", json={"code": code}, headers={"origin": ORIGIN})
    foreign = await site.client.post("/v1/tickets", headers={"origin": "https://evil.test"})
    own = await site.client.post("/v1/tickets", headers={"origin": ORIGIN})
    assert (foreign.status_code, own.status_code) == (403, 200)


async def test_a_revoked_key_ends_its_cookie_at_once(site: Site, redis: Redis, database: Database):
    """Revocation holds for cookies, tickets and the key itself on the next request."""
    await site.client.post("/v1/login", json={"key": site.key}, headers={"origin": ORIGIN})
    ticket = await site.ticket(user="ada")
    await revoke_key(database, redis, site.tenant, site.key_id)
    assert (await site.client.get("/v1/me")).status_code == 401
    assert (await site.client.get("/v1/me", headers=site.bearer)).status_code == 401
    assert await site.edge.auth.of_token(ticket) is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b'{"key": 1}', 400),
        (b'{"key": "pk_x"}', 401),
        (b'{"code": "zz"}', 401),
        (b'{"code": "a", "key": "b"}', 400),
        (b'{"key": "' + b"x" * 5000 + b'"}', 400),
    ],
)
async def test_a_bad_login_says_what_is_wrong(site: Site, body: bytes, status: int):
    """Every wrong body gets a typed error and no cookie."""
    reply = await site.client.post("/v1/login", content=body)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]
    assert "set-cookie" not in reply.headers


async def test_pages_are_locked_down(site: Site):
    """Strict CSP with Trusted Types on every reply, errors included."""
    for path in ("/healthz", "/v1/models", "/nowhere"):
        policy = (await site.client.get(path)).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy


async def test_a_page_may_ask_who_is_signed_in(site: Site):
    """Nobody: an answer without an error, which a browser would show in red."""
    nobody = dict.fromkeys(("tenant", "project", "user", "person"))
    assert (await site.client.get("/v1/me")).json() == nobody


async def _turn(site: Site, owner: ConversationOwner, content: str, conversation: str | None = None) -> Turn:
    now = now_ms()
    turn = Turn(conversation or uuid7(now), uuid7(now), content, "smollm2", now)
    await site.edge.conversations.open_turn(site.tenant, owner, turn)
    return turn


def _answer(text: str) -> RecordedAnswer:
    usage = {"input": 3, "cached_input": 0, "output": 2, "total": 5}
    timing = {"queue_ms": 1, "ttft_ms": 2, "total_ms": 3}
    return RecordedAnswer(text, "stop", "", usage, timing, 42, 1, 5, now_ms())


async def test_a_turn_is_stored_listed_and_deleted(site: Site):
    """Title, order, running state, usage and cost of a conversation, as the page shows them."""
    owner = ConversationOwner(site.project, site.key_id, "")
    turn = await _turn(site, owner, "  Hello\n there ")
    listed = (await site.client.get("/v1/conversations", headers=site.bearer)).json()
    assert [(row["title"], row["running"]) for row in listed["conversations"]] == [("Hello there", True)]
    with pytest.raises(Refused, match="conversation_busy"):
        await _turn(site, owner, "too early", turn.conversation)
    assert await site.edge.conversations.record(site.tenant, turn.request, _answer("Hi!"))
    assert not await site.edge.conversations.record(site.tenant, turn.request, _answer("again"))
    asked = (site.tenant, owner, turn.conversation, "tiny", HistoryBounds(10, 1_000))
    history = await site.edge.conversations.history(*asked)
    assert [each["content"] for each in history.messages] == ["  Hello\n there ", "Hi!"]
    path = f"/v1/conversations/{turn.conversation}"
    messages = (await site.client.get(f"{path}/messages", headers=site.bearer)).json()["messages"]
    assert [(each["role"], each["status"]) for each in messages] == [
        ("user", "ended"),
        ("assistant", "ended"),
    ]
    assert messages[1]["usage"]["output"] == 2
    assert messages[1]["cost"] == {"nano": 42, "currency": "usd"}
    assert (await site.client.delete(path, headers=site.bearer)).status_code == 200
    assert (await site.client.delete(path, headers=site.bearer)).status_code == 404
    with pytest.raises(Refused, match="unknown_conversation"):
        await site.edge.conversations.history(*asked)


async def test_conversations_are_their_owners_alone(site: Site, database: Database):
    """Another key, another user and another tenant see nothing, and an id of somebody else's is unknown."""
    turn = await _turn(site, ConversationOwner(site.project, site.key_id, ""), "mine")
    _, other_key = await create_key(database, site.tenant, site.project)
    stranger = await create_tenant(database, "globex")
    project = await create_project(database, stranger.tenant_id, "web")
    _, strange_key = await create_key(database, stranger.tenant_id, project.id)
    for key in (other_key, strange_key):
        bearer = {"authorization": f"Bearer {key}"}
        assert (await site.client.get("/v1/conversations", headers=bearer)).json()["conversations"] == []
        path = f"/v1/conversations/{turn.conversation}"
        assert (await site.client.get(f"{path}/messages", headers=bearer)).status_code == 404
        assert (await site.client.delete(path, headers=bearer)).status_code == 404


async def test_pages_of_conversations_neither_skip_nor_repeat(site: Site):
    """The cursor goes through 120 conversations, each once, last used first."""
    owner = ConversationOwner(site.project, site.key_id, "")
    made = [(await _turn(site, owner, f"number {n}")).conversation for n in range(120)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await site.client.get(f"/v1/conversations?cursor={cursor}", headers=site.bearer)).json()
        seen += [row["id"] for row in page["conversations"]]
        assert len(page["conversations"]) <= store.PAGE_ROWS
        if page["cursor"] is None:
            break
        cursor = page["cursor"]
    assert sorted(seen) == sorted(made)
    assert len(seen) == len(set(seen))


async def test_pages_of_messages_neither_skip_nor_repeat(site: Site, monkeypatch: pytest.MonkeyPatch):
    """The cursor goes through a conversation, each message once and in order."""
    for module in (store, conversation_routes):
        monkeypatch.setattr(module, "PAGE_ROWS", 2)
    owner = ConversationOwner(site.project, site.key_id, "")
    conversation = None
    for number in range(3):
        turn = await _turn(site, owner, f"{number}?", conversation)
        await site.edge.conversations.record(site.tenant, turn.request, _answer(f"{number}!"))
        conversation = turn.conversation
    said: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        path = f"/v1/conversations/{conversation}/messages?cursor={cursor}"
        page = (await site.client.get(path, headers=site.bearer)).json()
        assert len(page["messages"]) <= 2
        said += [message["content"] for message in page["messages"]]
        cursor = page["cursor"]
    assert said == ["0?", "0!", "1?", "1!", "2?", "2!"]


async def test_readiness_is_yes_or_no(site: Site):
    """Strangers learn no more, nor the names of models; operators read why in the log. The process itself is
    healthy."""
    with capture_logs() as logs:
        ready = await site.client.get("/readyz")
    assert (ready.status_code, ready.json()) == (503, {"ready": False})
    [line] = [line for line in logs if line["event"] == "health.readiness_changed"]
    assert "not installed" in line["missing"][0]
    for _ in range(3):
        with capture_logs() as logs:
            await site.client.get("/readyz")
        assert logs == [], "said when it changes"
    assert (await site.client.get("/healthz")).status_code == 200


async def test_what_the_api_does_not_serve_is_an_error_as_all_others(site: Site):
    """By path or by method; what it would take is named. Beside the API it stays plain text."""
    for route in routes(site.edge, Health(site.edge)):
        path = getattr(route, "path", "")
        if path.startswith("/v1/"):
            reply = await site.client.put(path)
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (405, "bad_request"), path
            assert error["message"] == f"this path takes {reply.headers['allow']}"
    assert (await site.client.delete("/v1/me")).headers["allow"] == "GET, HEAD"
    nothing = await site.client.get("/v1/nothing", headers=site.bearer)
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "bad_request")
    assert (await site.client.get("/nothing")).text == "Not Found"
