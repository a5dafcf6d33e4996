"""How browsers' sessions end where they are too many or over, and what becomes of whom they were made for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from billing.api import Principal
from billing.audit.log import list_rows
from billing.enforcement.limit_settings import set_policy
from billing.periods import HOUR_MS
from billing.tables.ledger import RollupHour
from billing.tables.sessions import BrowserSession
from billing.tenants import sessions, users
from billing.tenants.session_ends import clear_sessions
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from server.access.used_sessions import UsedSessions
from server.conversations.purge import Purge
from tests.server.http_site import ORIGIN, HttpSite, http_site
from tests.support.redis import Redis

OWN = {"origin": ORIGIN}


class Browsers:
    """Sign in, each with its own cookie."""

    def __init__(self, site: HttpSite) -> None:
        self.site = site

    async def sign_in(self, **proof: str) -> str:
        """The cookie of one more."""
        reply = await self.site.client.post("/v1/login", json=proof, headers=OWN)
        assert reply.status_code == 200, reply.text
        self.site.client.cookies.clear()
        return reply.cookies["parley_session"]

    async def sign_out(self, token: str) -> None:
        """As its page does."""
        headers = {"cookie": f"parley_session={token}", **OWN}
        assert (await self.site.client.post("/v1/logout", headers=headers)).status_code == 200

    async def who(self, token: str) -> Principal | None:
        """Whom it is signed in as."""
        return await self.site.edge.auth.of_browser(token)

    async def user(self, token: str) -> str:
        """The id of whom it is signed in as."""
        principal = await self.who(token)
        assert principal is not None
        return principal.user

    async def known(self) -> dict[str, bool]:
        """The tenant's users by id, and whether they are open."""
        found = await users.list_users(self.site.edge.db, self.site.tenant)
        return {user.id: user.closed_ms is None for user in found}

    async def end_all(self) -> None:
        """All their time is over."""
        async with self.site.edge.db.transaction() as session:
            for row in await sessions.list_sessions(self.site.edge.db, self.site.tenant):
                row.ends_ms = now_ms() - 1
                session.add(row)

    async def rows(self) -> int:
        """How many sessions the table holds."""
        async with self.site.edge.db.session() as session:
            return len((await session.exec(sessions.select(BrowserSession))).all())


@asynccontextmanager
async def browsers(
    database: Database, redis: Redis, settings: Settings, **changed: Any
) -> AsyncGenerator[Browsers]:
    """In front of a gateway with these settings."""
    async with http_site(database, redis, settings, **changed) as site:
        yield Browsers(site)


@pytest.fixture
async def few(database: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Browsers]:
    """Three a user and four a key, on SQLite and on Postgres."""
    async with browsers(
        database, redis, settings, sessions_per_user_max=3, sessions_per_key_max=4, users_per_tenant_max=6
    ) as found:
        yield found


async def test_a_user_has_so_many_browsers_and_the_oldest_makes_room(few: Browsers):
    """One more is let in, and signs out what was used longest ago: nobody else's."""
    bobs = await few.sign_in(code=few.site.code("bob"))
    anns = [await few.sign_in(code=few.site.code("ann")) for _ in range(5)]
    assert [await few.who(token) is not None for token in anns] == [False, False, True, True, True]
    assert await few.who(bobs) is not None
    ended = [row for row in await list_rows(few.site.edge.db, few.site.tenant) if row.action == "session.end"]
    assert [row.author for row in ended] == ["ann", "ann"]


async def test_a_key_has_so_many_browsers_and_no_link_is_ended_by_it(few: Browsers):
    """Whoever has the key signs in again and again: of those who came with it the oldest go, with the users
    that were made for them, so that the table of users does not grow; who came by a link stays."""
    anns = await few.sign_in(code=few.site.code("ann"))
    unnamed = [await few.sign_in(key=few.site.key) for _ in range(12)]
    assert await few.who(anns) is not None
    assert [await few.who(token) is not None for token in unnamed] == [False] * 9 + [True] * 3
    assert (await few.rows(), len(await few.known())) == (4, 3)


async def test_whom_a_sign_in_made_goes_with_the_browser(few: Browsers):
    """Who did nothing is removed, who sent something is closed, whom an operator took up stays."""
    idle, busy, limited = [await few.sign_in(key=few.site.key) for _ in range(3)]
    ids = [await few.user(token) for token in (idle, busy, limited)]
    principal = await few.who(busy)
    assert principal is not None
    await few.site.edge.used_sessions.note(principal)
    db, tenant = few.site.edge.db, few.site.tenant
    counted = "requests_per_minute"
    await set_policy(
        db, few.site.edge.redis, tenant, scope="user", scope_id=ids[2], dimension=counted, limit=5
    )
    for token in (idle, busy, limited):
        await few.sign_out(token)
    assert await few.known() == {ids[1]: False, ids[2]: True}
    with pytest.raises(Refused, match="signed out"):  # on a gateway that had not noted it
        await UsedSessions(few.site.edge.db).note(principal)


async def test_who_was_billed_is_closed_though_no_use_was_noted(few: Browsers):
    """What is in the books keeps its user, from the hour on that they were made in. Another tenant's lines,
    and those of hours before, keep nobody."""
    billed, beside = [await few.sign_in(key=few.site.key) for _ in range(2)]
    ids = [await few.user(token) for token in (billed, beside)]
    hour_ms = now_ms() // HOUR_MS * HOUR_MS
    names = ("project_id", "cost_center_id", "key_id", "model", "pool")
    counts = ("requests", "errors", "input_uncached", "input_cached", "output_text", "output_reasoning")
    facts: dict[str, Any] = {**dict.fromkeys(names, "x"), **dict.fromkeys((*counts, "amount_nano"), 0)}
    async with few.site.edge.db.transaction() as session:
        for tenant, user, at_ms in (
            (few.site.tenant, ids[0], hour_ms),
            ("another", ids[1], hour_ms),
            (few.site.tenant, ids[1], hour_ms - 2 * HOUR_MS),
        ):
            session.add(RollupHour(tenant_id=tenant, user_id=user, hour_ms=at_ms, **facts))
    for token in (billed, beside):
        await few.sign_out(token)
    assert await few.known() == {ids[0]: False}


async def test_nothing_is_sent_in_a_session_whose_time_is_over(few: Browsers):
    """Also where its row is not cleared away yet, and the caller was let in before."""
    principal = await few.who(await few.sign_in(key=few.site.key))
    assert principal is not None
    await few.end_all()
    with pytest.raises(Refused, match="signed out"):
        await few.site.edge.used_sessions.note(principal)


async def test_whom_a_link_was_given_stays_when_the_browser_goes(few: Browsers):
    """A sign-in made the user, and another browser has been signed in as them since."""
    own = await few.sign_in(key=few.site.key)
    id = await few.user(own)
    linked = await few.sign_in(code=few.site.code(id))
    await few.sign_out(own)
    assert await few.known() == {id: True}
    assert await few.user(linked) == id


async def test_signing_in_and_out_fills_no_tenant(few: Browsers):
    """However often: who is new is let in all the same."""
    for _ in range(8):
        await few.sign_out(await few.sign_in(key=few.site.key))
    assert await few.known() == {}
    for _ in range(8):
        await few.sign_in(key=few.site.key)
        await few.end_all()
        await clear_sessions(few.site.edge.db, now_ms())
    assert await few.known() == {}
    assert await users.user_id(few.site.edge.db, few.site.tenant, "ann", 1)


async def test_what_has_ended_is_cleared_away_in_batches(few: Browsers):
    """By every gateway's purge, with what was made for it; nothing that goes on."""
    for _ in range(3):
        await few.sign_in(key=few.site.key)
    await few.end_all()
    assert (await few.site.client.get("/v1/sessions", headers=few.site.bearer)).json()["sessions"] == []
    stays = await few.sign_in(code=few.site.code("ann"))
    purge = Purge(few.site.edge.db, few.site.edge.pools.recorders, few.site.edge.settings)
    assert await clear_sessions(few.site.edge.db, now_ms(), 2) == 2
    assert await few.rows() == 2
    assert await purge.clear_sessions(now_ms()) == 1
    assert await purge.clear_sessions(now_ms()) == 0
    assert (await few.rows(), await few.known()) == (1, {})
    assert await few.who(stays) is not None


async def test_a_full_tenant_says_so_and_tells_no_number(sqlite: Database, redis: Redis, settings: Settings):
    async with browsers(sqlite, redis, settings, users_per_tenant_max=1) as found:
        await users.user_id(sqlite, found.site.tenant, "ann")
        reply = await found.site.client.post("/v1/login", json={"key": found.site.key}, headers=OWN)
        assert reply.status_code == 400
        assert "PARLEY_USERS_PER_TENANT_MAX" in reply.json()["error"]["message"]
        assert "1" not in reply.json()["error"]["message"]


async def test_no_end_user_can_make_users(site: HttpSite):
    """Whoever is one user names no other: by a ticket, by a browser's session or by an own key."""
    annes = await site.another_key(user="anne", scopes=["chat"])
    shared = await site.another_key(shared=True)
    found = Browsers(site)
    token = await found.sign_in(code=site.code(await users.user_id(site.edge.db, site.tenant, "bob")))
    before = await found.known()
    tickets = [await site.ticket(user="anne"), await site.ticket(shared), await site.ticket(annes)]
    callers = [await site.edge.auth.of_token(ticket) for ticket in tickets]
    callers += [await found.who(token), await site.edge.auth.of_api_key(annes)]
    for principal in callers:
        assert principal is not None
        with pytest.raises(Refused, match="another user's"):
            await site.edge.users.of_turn(principal, {"user": "somebody new"}, None)
    for shown in ({"authorization": f"Bearer {annes}"}, {"cookie": f"parley_session={token}", **OWN}):
        reply = await site.client.post("/v1/tickets", headers=shown, json={"user": "somebody new"})
        assert reply.status_code == 403
    assert await found.known() == before


async def test_a_key_signs_in_so_often(sqlite: Database, redis: Redis, settings: Settings):
    """From wherever it is shown: each sign-in is a row that the audit log keeps."""
    async with browsers(sqlite, redis, settings, signins_per_caller_per_minute=2) as found:
        site = found.site
        for expected in (200, 200, 429):
            reply = await site.client.post("/v1/login", json={"key": site.key}, headers=OWN)
            assert reply.status_code == expected
        assert "retry-after" in reply.headers
        await found.sign_in(code=site.code("ann"))
        await found.sign_in(key=await site.another_key(user="anne"))


async def test_what_is_not_listed_can_be_ended(site: HttpSite, monkeypatch: pytest.MonkeyPatch):
    """Where there are more sessions than a list shows, the older ones are ended by their id all the same."""
    found = Browsers(site)
    oldest = await found.sign_in(key=site.key)
    principal = await found.who(oldest)
    assert principal is not None
    await found.sign_in(key=site.key)
    monkeypatch.setattr(sessions, "LISTED_MAX", 1)
    listed = (await site.client.get("/v1/sessions", headers=site.bearer)).json()["sessions"]
    assert [each["id"] for each in listed] != [principal.session]
    await site.client.delete(f"/v1/sessions/{principal.session}", headers=site.bearer)
    assert await found.who(oldest) is None


async def test_many_sign_in_at_once(few: Browsers):
    """None of them waits for another in a circle, and the next one finds at most as many as there may be."""
    proofs = [{"code": few.site.code("ann")} for _ in range(6)] + [{"key": few.site.key}] * 6
    replies = await asyncio.gather(
        *(few.site.client.post("/v1/login", json=proof, headers=OWN) for proof in proofs)
    )
    assert {reply.status_code for reply in replies} == {200}
    few.site.client.cookies.clear()
    await few.sign_in(code=few.site.code("ann"))
    open_rows = await sessions.list_sessions(few.site.edge.db, few.site.tenant)
    assert len(open_rows) == 4
    assert sum(row.user_id == "ann" for row in open_rows) <= 3
