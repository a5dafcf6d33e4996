"""What those who are connected may still do, and who is told to go. Connections are words."""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from billing.api import KEY_REVOKED, SESSION_ENDED, ControlNews, Principal
from server.connection.access_checks import access_ms, end_all, present_access, recheck_access
from server.protocol.codes import CloseCode
from server.session.events import AccessChanged, Event
from tests.support.watch import StubClock

KEY = Principal("t1", "p1", "k1", "", frozenset({"chat", "requests:read"}), "bulk", None, False, "k1")
ANN = replace(KEY, user="ann", fixed_user=True, scopes=frozenset({"chat"}))
SIGNED_IN = replace(ANN, session="s1")


@dataclass
class CheckedPeer:
    """A connection, and what it was told."""

    principal: Principal | None
    id: str = "c"
    address: str = ""
    origins: tuple[str, ...] = ()
    closes: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    heard: list[Event] = field(default_factory=list[Event])

    def order_close(self, code: CloseCode, reason: Any = None, message: str = "") -> None:
        """See OpenSocket."""
        self.closes.append((code, reason, message))

    def feed(self, event: Event) -> None:
        """See OpenSocket."""
        self.heard.append(event)

    def bytes_in_flight(self) -> int:
        """See OpenSocket."""
        return 0

    def put_out(self) -> None:
        """See OpenSocket."""

    def facts(self) -> None:
        """See OpenSocket."""

    def standing(self, id: str) -> None:
        """See OpenSocket."""


@dataclass
class FreshAccess:
    """What keys and sessions are, and who asked."""

    found: Principal | None = KEY
    suspended: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    closed: set[str] = field(default_factory=set[str])

    async def standing(self, *proof: str) -> Principal | None:
        """As the authenticator's."""
        self.asked.append(proof)
        return self.found

    async def is_suspended_proof(self, *_: str) -> bool:
        """As the authenticator's."""
        return self.suspended

    async def has(self, _: str, user: str) -> bool:
        """As that of closed users."""
        return user in self.closed


async def recheck(auth: FreshAccess, peers: list[CheckedPeer], of_tenant: str | None = None) -> None:
    """By what keys, sessions and closed users are there."""
    await recheck_access(cast(Any, auth), cast(Any, auth), peers, of_tenant)


REVOKED = (4501, "unauthorized", "the key was revoked")
SIGNED_OUT = (4501, "unauthorized", "the browser was signed out")


async def test_each_proof_is_looked_up_once():
    """All of them, or those of one tenant; who said no hello has none."""
    auth = FreshAccess()
    other = replace(KEY, tenant="t2")
    peers = [CheckedPeer(each) for each in (KEY, ANN, SIGNED_IN, other, None)]
    await recheck(auth, peers, "t1")
    assert auth.asked == [("t1", "k1", ""), ("t1", "k1", "s1")]
    auth.asked.clear()
    await recheck(auth, peers)
    assert len(auth.asked) == 3
    assert await present_access(cast(Any, auth), ANN) is KEY
    assert auth.asked[-1] == ("t1", "k1", "", "ann")
    auth.found = None
    assert await present_access(cast(Any, auth), ANN) is None


@pytest.mark.parametrize(
    ("suspended", "closes"),
    [(False, [REVOKED, REVOKED, SIGNED_OUT]), (True, [(4507, "account_suspended")] * 3)],
)
async def test_who_may_nothing_any_more_is_told_why(suspended: bool, closes: list[tuple[Any, ...]]):
    """Of a tenant that is closed, that; else what has ended."""
    peers = [CheckedPeer(each) for each in (KEY, ANN, SIGNED_IN)]
    await recheck(FreshAccess(None, suspended), peers)
    assert [peer.closes[0][: len(close)] for peer, close in zip(peers, closes, strict=True)] == closes
    assert [len(peer.closes) for peer in peers] == [1] * 3


async def test_a_closed_user_of_a_ticket_goes():
    """Whom the key itself names was looked up with it."""
    by_ticket, open, own, service = (
        CheckedPeer(ANN),
        CheckedPeer(replace(ANN, user="bob")),
        CheckedPeer(ANN),
        CheckedPeer(KEY),
    )
    await recheck(FreshAccess(closed={"ann", ""}), [by_ticket, open, service])
    await recheck(FreshAccess(ANN, closed={"ann"}), [own])
    assert [peer.closes for peer in (by_ticket, open, own, service)] == [[REVOKED], [], [], []]


async def test_a_connection_is_held_to_what_its_key_may_now(watch: StubClock):
    """Never more scopes than it had; when it ends is told where that is sooner."""
    fresh = replace(
        KEY,
        scopes=frozenset({"chat", "requests:cancel"}),
        priority_max="interactive",
        regex=False,
        shows_costs=True,
        cache_by_owner=True,
        access_ends_ms=watch.ms + 5_000,
    )
    peer = CheckedPeer(ANN)
    await recheck(FreshAccess(fresh), [peer])
    assert peer.principal == replace(fresh, user="ann", fixed_user=True, scopes=frozenset({"chat"}))
    assert peer.heard == [AccessChanged(5_000)]
    for ends_ms, told, kept in (
        (5_000, [], 5_000),
        (5_001, [], 5_000),
        (None, [], 5_000),
        (4_999, [4_999], 4_999),
    ):
        peer.heard.clear()
        at = None if ends_ms is None else watch.ms + ends_ms
        await recheck(FreshAccess(replace(KEY, access_ends_ms=at)), [peer])
        assert peer.heard == [AccessChanged(each) for each in told]
        assert peer.principal is not None
        assert peer.principal.access_ends_ms == watch.ms + kept
    assert peer.closes == []


async def test_who_showed_another_token_meanwhile_is_left_alone():
    """It is looked up the next time, by that."""
    peer = CheckedPeer(ANN)
    other = replace(ANN, key="k2")

    class Slow(FreshAccess):
        async def standing(self, *proof: str) -> Principal | None:
            peer.principal = other
            return await super().standing(*proof)

    class SlowToClose(FreshAccess):
        async def has(self, _: str, user: str) -> bool:
            peer.principal = other
            return False

    for auth in (Slow(None), Slow(KEY), SlowToClose(KEY)):
        peer.principal = ANN
        await recheck(auth, [peer])
        assert (peer.principal, peer.closes, peer.heard) == (other, [], [])


@pytest.mark.parametrize(
    ("kind", "key", "tenant", "cut"),
    [
        (KEY_REVOKED, "k1", "t1", [True, True, True, False]),
        (KEY_REVOKED, "s1", "t1", [False] * 4),
        (SESSION_ENDED, "s1", "t1", [False, False, True, False]),
        (SESSION_ENDED, "k1", "t1", [False] * 4),
        (KEY_REVOKED, "k1", "t2", [False] * 4),
        (KEY_REVOKED, "k2", "t1", [False] * 4),
    ],
)
def test_news_end_those_they_are_of(kind: str, key: str, tenant: str, cut: list[bool]):
    """Of the tenant's key, or of the browser's session."""
    peers = [CheckedPeer(each) for each in (KEY, ANN, SIGNED_IN, None)]
    end_all(peers, ControlNews(kind, tenant, key))
    assert [bool(peer.closes) for peer in peers] == cut


def test_what_is_left_of_access_is_never_less_than_nothing(watch: StubClock):
    """None: without end."""
    ends = (None, watch.ms + 7, watch.ms, watch.ms - 7)
    assert [access_ms(replace(KEY, access_ends_ms=each)) for each in ends] == [None, 7, 0, 0]
