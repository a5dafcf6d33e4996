"""What a gateway keeps of users: for how long, how many, and that news empty it. The SQL is a dict."""

from typing import Any, NamedTuple

import pytest

from core.errors import Refusal, Refused
from core.sql.database import Database
from server.access import users as module
from server.access.users import FULL_MS, KEPT_MS, Users
from server.protocol.codes import ErrorCode
from tests.support.watch import StubClock

MANY = 10_000


class User(NamedTuple):
    """As far as it is looked at."""

    id: str


class UsersDatabase:
    """Users by tenant and name, and every question; `full`: there is room for no other."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], str] = {}
        self.asked = list[tuple[str, ...]]()
        self.full = False
        self.news: Users | None = None  # to whom news come while the question is answered

    async def user_id(self, _: Database, tenant: str, name: str, most: int) -> str:
        """As billing's."""
        assert most == 7
        self.asked.append(("id", tenant, name))
        self._tell()
        if self.full and (tenant, name) not in self.ids:
            raise Refused(Refusal(ErrorCode.RATE_LIMITED, "full"))
        return self.ids.setdefault((tenant, name), f"u{len(self.ids)}")

    async def user_named(self, _: Database, tenant: str, name: str) -> User | None:
        """As billing's."""
        self.asked.append(("named", tenant, name))
        found = self.ids.get((tenant, name))
        return None if found is None else User(found)

    async def user_names(self, _: Database, tenant: str, ids: list[str]) -> dict[str, str]:
        """As billing's."""
        self.asked.append(("names", tenant, *ids))
        self._tell()
        return {id: f"name of {id}" for id in ids}

    def _tell(self) -> None:
        if self.news is not None:
            self.news.changed()

    def take(self) -> list[tuple[str, ...]]:
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> UsersDatabase:
    """Instead of SQL."""
    books = UsersDatabase()
    for name in ("user_id", "user_named", "user_names"):
        monkeypatch.setattr(module, name, getattr(books, name))
    return books


@pytest.fixture
def users(books: UsersDatabase, watch: StubClock) -> Users:
    """A gateway's, of tenants with seven users at most."""
    nothing: Any = None
    return Users(nothing, 7)


async def test_both_ways_are_kept_for_a_minute(users: Users, books: UsersDatabase, watch: StubClock):
    """And not a millisecond longer; what was read in a future that a clock came back from is read anew."""
    assert await users.id_of("t", "ann") == "u0"
    assert await users.name_of("t", "u0") == "name of u0"
    both = [("id", "t", "ann"), ("names", "t", "u0")]
    assert books.take() == both
    for passed_ms, asked in ((0, []), (59_999, []), (1, both), (-1, both), (1, [])):
        watch.ms += passed_ms
        assert (await users.id_of("t", "ann"), await users.name_of("t", "u0")) == ("u0", "name of u0")
        assert books.take() == asked, passed_ms
    assert KEPT_MS == 60_000


async def test_nobody_is_not_looked_up(users: Users, books: UsersDatabase):
    """An empty name is nobody's id and an empty id nobody's name."""
    assert (await users.id_of("t", ""), await users.name_of("t", "")) == ("", "")
    assert books.asked == []


async def test_news_empty_both_and_overtake_what_is_being_read(users: Users, books: UsersDatabase):
    """What was read before somebody was closed or erased is not kept."""
    books.full = False
    await users.id_of("t", "ann")
    await users.name_of("t", "u0")
    users.changed()
    books.take()
    both = [("id", "t", "ann"), ("names", "t", "u0")]
    for news, asked in ((users, both), (None, both), (None, [])):
        books.news = news
        await users.id_of("t", "ann")
        await users.name_of("t", "u0")
        assert books.take() == asked


async def test_ten_thousand_are_kept_the_latest_read(users: Users, books: UsersDatabase, watch: StubClock):
    """Of ids and of names each; what is read again counts as the latest."""
    for number in range(MANY):
        await users.name_of("t", f"u{number}")
    books.take()
    await users.name_of("t", "u0")
    assert books.take() == []
    watch.ms += KEPT_MS
    await users.name_of("t", "u0")  # read again: it is now the latest
    watch.ms -= KEPT_MS
    await users.name_of("t", "one more")
    books.take()
    for number in (2, MANY - 1, 1):
        await users.name_of("t", f"u{number}")
    assert books.take() == [("names", "t", "u1")]


async def test_a_full_tenant_is_counted_every_ten_seconds(
    users: Users, books: UsersDatabase, watch: StubClock
):
    """Who is known comes in meanwhile; another tenant is counted by itself; room, or news, end it."""
    await users.id_of("t", "ann")
    books.full = True
    users._ids = module._UserCache()
    for name in ("bob", "cid"):
        with pytest.raises(Refused, match="full"):
            await users.id_of("t", name)
    assert await users.id_of("t", "ann") == "u0"
    with pytest.raises(Refused):
        await users.id_of("other", "bob")
    asked = [("id", "t", "ann"), ("id", "t", "bob"), ("named", "t", "cid"), ("named", "t", "ann")]
    assert books.take() == [*asked, ("id", "other", "bob")]
    for passed_ms, kind in ((FULL_MS - 1, "named"), (1, "id"), (-1, "id"), (0, "named")):
        watch.ms += passed_ms
        with pytest.raises(Refused):
            await users.id_of("t", "bob")
        assert books.take() == [(kind, "t", "bob")], passed_ms
    assert FULL_MS == 10_000
    users.changed()
    with pytest.raises(Refused):
        await users.id_of("t", "bob")
    assert books.take() == [("id", "t", "bob")]


async def test_a_tenant_that_has_room_again_is_not_held_for_full(
    users: Users, books: UsersDatabase, watch: StubClock
):
    """Also where the clock goes back to when it was."""
    books.full = True
    with pytest.raises(Refused):
        await users.id_of("t", "bob")
    books.full = False
    watch.ms += FULL_MS
    assert await users.id_of("t", "bob") == "u0"
    watch.ms -= FULL_MS
    assert await users.id_of("t", "cid") == "u1"
    assert [kind for kind, *_ in books.take()] == ["id"] * 3
