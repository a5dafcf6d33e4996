"""That a session was used is noted once, and one that has ended sends nothing."""

from typing import Any

import pytest

from billing.api import Principal
from core.errors import Refused
from core.sql.database import Database
from server.access import used_sessions
from server.access.used_sessions import UsedSessions

MANY = 10_000


class UsedSessionsDatabase:
    """Sessions that are open, and every note."""

    def __init__(self) -> None:
        self.noted = list[str]()
        self.ended = set[str]()

    async def note_use(self, _: Database, tenant: str, session: str) -> bool:
        """As billing's."""
        self.noted.append(f"{tenant} {session}")
        return session not in self.ended


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> UsedSessionsDatabase:
    """Instead of SQL."""
    books = UsedSessionsDatabase()
    monkeypatch.setattr(used_sessions, "touch_session", books.note_use)
    return books


@pytest.fixture
def used(books: UsedSessionsDatabase) -> UsedSessions:
    """A gateway's."""
    nothing: Any = None
    return UsedSessions(nothing)


def of(session: str, tenant: str = "t1") -> Principal:
    """A caller whose browser has this session."""
    return Principal(
        tenant, "p1", "k1", "ann", frozenset({"chat"}), "bulk", None, True, "k1", session=session
    )


async def test_each_is_noted_once(used: UsedSessions, books: UsedSessionsDatabase):
    """A caller without one is not noted at all; one of the same name in another tenant is another."""
    for principal in (of("a"), of("a"), of(""), of("a", "t2"), of("b"), of("a")):
        await used.note(principal)
    assert books.noted == ["t1 a", "t2 a", "t1 b"]


async def test_one_that_ended_sends_nothing(used: UsedSessions, books: UsedSessionsDatabase):
    """And is asked for again: signing in anew opens it."""
    books.ended.add("a")
    for _ in range(2):
        with pytest.raises(Refused, match="sign in again"):
            await used.note(of("a"))
    assert books.noted == ["t1 a"] * 2


async def test_ten_thousand_are_remembered_the_oldest_goes_first(
    used: UsedSessions, books: UsedSessionsDatabase
):
    """So that memory is bounded, whoever signs in."""
    for number in range(MANY):
        await used.note(of(str(number)))
    books.noted.clear()
    await used.note(of("0"))
    await used.note(of("one more"))
    await used.note(of("1"))
    await used.note(of("0"))
    assert books.noted == ["t1 one more", "t1 0"]
