"""A resume token goes on with one session of one owner, and the one before it dies."""

from dataclasses import replace

import pytest

from billing.api import Principal
from core.clock import now_ms
from core.signing.signed_text import Keyring
from server.connection import session_store
from server.connection.session_store import BEFORE_GRACE_MS, SessionRecord, SessionStore
from server.session import resume_token
from tests.server.http_site import HttpSite
from tests.support.patience import BEAT_SECONDS, pause
from tests.support.redis import Redis


class Sat:
    """Sessions of one owner, and their records in Redis."""

    def __init__(self, site: HttpSite, principal: Principal) -> None:
        self.site = site
        self.sessions = SessionStore(site.edge.redis, site.edge.settings, site.edge.pools.gateway)
        self.principal = principal
        self._connections = 0

    async def open(self, token: str | None = None, who: Principal | None = None) -> SessionRecord:
        """A connection that says hello, perhaps with a token."""
        self._connections += 1
        return await self.sessions.open(who or self.principal, f"c{self._connections}", token)

    async def good(self, token: str, first: SessionRecord, who: Principal | None = None) -> bool:
        """Whether a token goes on with the session."""
        return (await self.open(token, who)).session == first.session

    def key(self, record: SessionRecord) -> str:
        """Where the session's record is."""
        return f"{{t:{record.tenant}}}sess:{record.session}"


@pytest.fixture
async def sat(site: HttpSite) -> Sat:
    """The tenant's service key, as ann."""
    principal = await site.edge.auth.of_token(await site.ticket(user="ann"))
    assert principal is not None
    return Sat(site, principal)


async def test_the_one_before_is_good_until_the_newer_was_used_and_then_a_while(sat: Sat, redis: Redis):
    """30 s after the client's first frame with the newer one it is dead; an older one is dead at once."""
    first = await sat.open()
    second = await sat.open(first.token)
    assert second.session == first.session
    third = await sat.open(first.token)  # the client never saw the second's welcome
    assert third.session == first.session
    assert not await sat.good(first.token, first)  # two before
    await sat.sessions.confirm(third)
    until = int(await redis.hget(sat.key(first), "before_until") or 0)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]
    assert BEFORE_GRACE_MS == 30_000
    assert now_ms() + BEFORE_GRACE_MS - 5_000 < until <= now_ms() + BEFORE_GRACE_MS + 1_000
    await redis.hset(sat.key(first), "before_until", str(now_ms() - 1))  # pyright: ignore[reportGeneralTypeIssues]
    assert not await sat.good(second.token, first)
    fourth = await sat.open(third.token)  # whose welcome is lost, too, after that while
    assert (fourth.session, await sat.good(third.token, first)) == (first.session, True)


async def test_a_confirmation_comes_from_the_newest_connection_alone_and_once(sat: Sat, redis: Redis):
    """A frame of the superseded one proves nothing, and later frames do not prolong the grace."""
    first = await sat.open()
    second = await sat.open(first.token)
    await sat.sessions.confirm(first)
    assert await redis.hget(sat.key(first), "before_until") == b"0"  # pyright: ignore[reportGeneralTypeIssues]
    await redis.hset(sat.key(first), "before_until", "7")  # pyright: ignore[reportGeneralTypeIssues]
    await sat.sessions.confirm(second)
    assert await redis.hget(sat.key(first), "before_until") == b"7"  # pyright: ignore[reportGeneralTypeIssues]


async def test_it_dies_with_its_session(sat: Sat, redis: Redis):
    """By `bye`, and 15 minutes after the last connection."""
    first = await sat.open()
    assert 0 < await redis.pttl(sat.key(first)) <= sat.site.edge.settings.resume_seconds * 1000
    await sat.sessions.end(first)
    assert not await sat.good(first.token, first)
    second = await sat.open()
    await redis.pexpire(sat.key(second), 5_000)
    second = await sat.open(second.token)  # who goes on has the whole time again
    assert await redis.pttl(sat.key(second)) > 60_000
    await redis.pexpire(sat.key(second), 1)
    await pause(BEAT_SECONDS)
    assert not await sat.good(second.token, second)


@pytest.mark.parametrize(
    "other",
    [
        {"user": "bob"},
        {"user": "", "fixed_user": False},
        {"project": "another"},
        {"tenant": "another"},
    ],
)
async def test_it_is_bound_to_its_owner(sat: Sat, other: dict[str, object]):
    """Another user, key, project or tenant who shows it gets a session of their own."""
    first = await sat.open()
    assert not await sat.good(first.token, first, replace(sat.principal, **other))  # pyright: ignore[reportArgumentType]
    assert await sat.good(first.token, first)


async def test_who_writes_redis_makes_no_token(sat: Sat, redis: Redis):
    """What the record says of its owner does not make another's token good."""
    first = await sat.open()
    keyring, now = sat.site.edge.settings.keyring, now_ms()
    token = resume_token.unseal(first.token, keyring, now)
    assert token is not None
    forged = resume_token.seal(token, Keyring(b"guessed"))
    assert not await sat.good(forged, first)
    bob = replace(sat.principal, user="bob")
    owner = resume_token.unseal((await sat.open(who=bob)).token, keyring, now)
    assert owner is not None
    await redis.hset(sat.key(first), "owner", owner.owner)  # pyright: ignore[reportGeneralTypeIssues]
    assert not await sat.good(first.token, first, bob)
    assert not await sat.good(first.token, first), "the record is another's now"
    assert resume_token.unseal(first.token, keyring, token.expires_ms) is None


async def test_what_a_session_remembers_is_bounded_and_goes_with_it(
    sat: Sat, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    """The requests whose end its client has not applied; `bye` leaves nothing."""
    monkeypatch.setattr(session_store, "OPEN_IDS_MAX", 3)
    first = await sat.open()
    for number in range(5):
        await sat.sessions.note(first, f"r{number}")
    assert (await sat.open(first.token)).open_ids == {"r0", "r1", "r2"}
    await sat.sessions.forget(first, "r1")
    assert (await sat.open(first.token)).open_ids == {"r0", "r2"}
    await sat.sessions.end(first)
    assert await redis.keys(f"{sat.key(first)}*") == []
