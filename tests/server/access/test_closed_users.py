"""What a gateway keeps of who may not come in: for how long, how many, and that news empty it."""

from typing import Any

import pytest

from core.sql.database import Database
from server.access import closed_users
from server.access.closed_users import ClosedUsers
from tests.support.watch import StubClock

MANY = 10_000


class ClosedUsersDatabase:
    """Who is closed, and how often that was asked; `news`: to whom they come meanwhile."""

    def __init__(self) -> None:
        self.closed = {"zoe"}
        self.asked = list[str]()
        self.news: ClosedUsers | None = None

    async def user_is_closed(self, _: Database, tenant: str, user: str) -> bool:
        """As billing's."""
        self.asked.append(f"{tenant} {user}")
        closed = user in self.closed and tenant == "t"
        if self.news is not None:
            self.news.changed()
        return closed


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> ClosedUsersDatabase:
    """Instead of SQL."""
    books = ClosedUsersDatabase()
    monkeypatch.setattr(closed_users, "user_is_closed", books.user_is_closed)
    return books


@pytest.fixture
def closed(books: ClosedUsersDatabase, watch: StubClock) -> ClosedUsers:
    """A gateway's."""
    nothing: Any = None
    return ClosedUsers(nothing)


async def test_it_is_known_for_five_seconds(
    closed: ClosedUsers, books: ClosedUsersDatabase, watch: StubClock
):
    """Not a millisecond longer, and nothing that was read in a future that a clock came back from."""
    assert await closed.has("t", "zoe")
    asked = 1
    for passed_ms, more in ((0, 0), (4_999, 0), (1, 1), (-1, 1), (1, 0)):
        watch.ms += passed_ms
        assert await closed.has("t", "zoe")
        asked += more
        assert len(books.asked) == asked, passed_ms


async def test_nobody_is_never_closed(closed: ClosedUsers, books: ClosedUsersDatabase):
    """And not looked up; a user of the same name in another tenant is another."""
    assert not await closed.has("t", "")
    assert books.asked == []
    assert await closed.has("t", "zoe")
    assert not await closed.has("other", "zoe")
    assert not await closed.has("t", "ann")


async def test_news_are_heard_at_once(closed: ClosedUsers, books: ClosedUsersDatabase):
    """Also where they come while it is being read: what was read is not kept."""
    assert not await closed.has("t", "ann")
    books.closed.add("ann")
    assert not await closed.has("t", "ann")
    closed.changed()
    books.closed.remove("ann")
    books.news = closed
    assert not await closed.has("t", "ann")
    books.closed.add("ann")
    assert await closed.has("t", "ann")


async def test_ten_thousand_are_kept_the_latest_read(
    closed: ClosedUsers, books: ClosedUsersDatabase, watch: StubClock
):
    """What is read again counts as the latest."""
    for number in range(MANY):
        await closed.has("t", f"u{number}")
    assert len(books.asked) == MANY
    watch.ms += 5_000
    await closed.has("t", "u0")
    watch.ms -= 5_000
    await closed.has("t", "one more")
    books.asked.clear()
    for number in (2, MANY - 1, 1):
        await closed.has("t", f"u{number}")
    assert books.asked == ["t u1"]
