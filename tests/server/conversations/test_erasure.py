"""How erasing deals with what is in use, with what stays in Redis, and with whose words it tells."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from billing.tables.tenants import Tenant, TenantUser
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations import erasure, running
from server.conversations.erasure import erase_texts, texts_of
from server.conversations.store import ConversationStore, RecordedAnswer, Turn
from tests.server.virtual.loop import passed, played
from tests.support.watch import StubClock

KNOWN_MS = 100_000


class RequestsMade(list[tuple[str, str, int]]):
    """The requests that somebody made: id, conversation, time of acceptance; none is held back."""

    async def requests_of(self, _: object, tenant: str, user: str | None) -> AsyncGenerator[list[Any]]:
        """As billing's, two a page."""
        assert (tenant, user) in (("t", "ann"), ("t", None))
        for at in range(0, len(self), 2):
            yield [
                type("Row", (), {"request_id": id, "conversation_id": of, "accepted_ms": made})
                for id, of, made in self[at : at + 2]
            ]

    async def held_events_of(self, *_: object) -> AsyncGenerator[Any]:
        """As billing's."""
        for each in ():
            yield each


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> RequestsMade:
    """In place of what billing knows."""
    made = RequestsMade()
    for name in ("requests_of", "held_events_of"):
        monkeypatch.setattr(erasure, name, getattr(made, name))
    return made


async def create_tenant_of(sqlite: Database, *users: str) -> None:
    """A tenant `t` with these open users."""
    async with sqlite.transaction() as session:
        session.add(
            Tenant(tenant_id="t", name="t", price_book_id="default", priority_max="bulk", created_ms=1)
        )
        await session.flush()
        session.add_all(TenantUser(tenant_id="t", id=user, name=user, created_ms=1) for user in users)


@pytest.mark.parametrize(("gone_after", "seconds"), [(0, 0.0), (99, 9.9), (100, None)])
def test_what_a_gateway_uses_is_tried_a_hundred_times(
    monkeypatch: pytest.MonkeyPatch, gone_after: int, seconds: float | None
):
    """A tenth of a second apart; a try that took some away counts for nothing."""
    tries = list[int]()

    async def hidden(*_: object) -> list[tuple[str, str]]:
        return [("t", "c")] if len(tries) <= gone_after + 1 else []

    async def purge(*_: object) -> tuple[int, set[str]]:
        tries.append(1)
        done = len(tries) == 1 or len(tries) == gone_after + 2
        return (3, {f"r{len(tries)}"}) if done else (0, set())

    monkeypatch.setattr(erasure, "_hidden", hidden)
    monkeypatch.setattr(erasure, "purge", purge)
    nothing: Any = None

    async def day() -> tuple[int, set[str], float]:
        gone, broken = await erasure._erase_conversations(nothing, nothing, "t", None)
        return gone, broken, round(passed(), 3)

    if seconds is None:
        with pytest.raises(Refused, match="a gateway is using 1 of the conversations: try again"):
            played(day())
        assert len(tries) == 101
    else:
        assert played(day()) == (6, {"r1", f"r{gone_after + 2}"}, seconds)


@pytest.mark.parametrize(("count", "named"), [(1, "r00"), (20, "r19"), (21, "r19, …")])
def test_what_stays_in_redis_is_named(count: int, named: str):
    """The first twenty."""
    requests = [f"r{at:02}" for at in range(count)]
    said = erasure._stays("t1", requests)
    assert said.startswith(
        f"all that could be erased is; of {count} requests the keys in Redis ({{p:POOL}}req:t1:"
    )
    assert said.partition(" They are: ")[2] == ", ".join([*requests[:19], named] if count > 1 else [named])


async def test_pools_forget_what_they_may_still_know(
    sqlite: Database, asked: RequestsMade, watch: StubClock, monkeypatch: pytest.MonkeyPatch
):
    """To the millisecond; what they could not is told, in order."""
    asked += [("r3", "c", watch.ms), ("r2", "c", watch.ms - KNOWN_MS + 1), ("r1", "c", watch.ms - KNOWN_MS)]
    forgot, fails = list[str](), set[str]()

    class ErasurePools:
        """All of them."""

        known_ms = runs_ms = KNOWN_MS

        def __init__(self, *_: object) -> None:
            self.kept = list[str]()

        def keep(self, pool: str) -> None:
            """It is among them."""
            self.kept.append(pool)

    async def pools(*_: object) -> list[str]:
        return ["a", "b"]

    async def forgotten(known: ErasurePools, tenant: str, request: str) -> bool:
        assert (known.kept, tenant) == (["a", "b"], "t")
        forgot.append(request)
        return request not in fails

    monkeypatch.setattr(running, "PoolRecorders", ErasurePools)
    monkeypatch.setattr(running, "announced_pools", pools)
    monkeypatch.setattr(erasure, "forget_answer", forgotten)
    nothing: Any = None
    assert await erase_texts(sqlite, nothing, Settings(), "t", "ann") == (0, 0)
    assert forgot == ["r3", "r2"]
    fails |= {"r2", "r3"}
    with pytest.raises(Refused, match=r"of 2 requests .* They are: r2, r3$"):
        await erase_texts(sqlite, nothing, Settings(), "t", "ann")


async def _turn(
    kept: ConversationStore, owner: ConversationOwner, conversation: str, request: str, user: str = ""
) -> None:
    turn = Turn(
        conversation, request, f"what of {request}", "tiny", 1, key="k", user=user, system=f"as {request}"
    )
    await kept.open_turn("t", owner, turn)
    await kept.record("t", request, RecordedAnswer(f"that of {request}", "stop", "", {}, {}, 1, 1, 3, 2))


async def test_all_of_a_users_words_are_told(sqlite: Database):
    """Conversations by their ids, hidden ones too; then what they said in those of a service key. No book
    is asked."""
    kept = ConversationStore(sqlite)
    await create_tenant_of(sqlite, "ann", "bob")
    ann, service = ConversationOwner("p", "", "ann"), ConversationOwner("p", "k", "")
    await _turn(kept, ann, "c2", "r2", "ann")
    await _turn(kept, ann, "c1", "r1", "ann")
    for request, user in (("r3", "ann"), ("r4", "bob")):
        await _turn(kept, service, "c3", request, user)
    await _turn(kept, ConversationOwner("p", "", "bob"), "c4", "r5", "bob")
    await kept.delete("t", ann, "c2", 5)
    told = [each async for each in texts_of(sqlite, "t", "ann")]
    assert [(each["kind"], each.get("id"), each.get("title"), each.get("deleted")) for each in told] == [
        ("conversation", "c1", "what of r1", False),
        ("conversation", "c2", "what of r2", True),
        ("messages", None, None, None),
    ]
    assert [each.get("system") for each in told] == ["as r1", "as r2", None]
    assert [[message["content"] for message in each["messages"]] for each in told] == [
        ["what of r1", "that of r1"],
        ["what of r2", "that of r2"],
        ["what of r3", "that of r3"],
    ]
    assert told[0]["messages"][1] == {
        "conversation_id": "c1",
        "role": "assistant",
        "content": "that of r1",
        "flags": [],
        "safety": None,
        "request_id": "r1",
        "model": "tiny",
        "created_ms": 1,
    }


async def test_words_in_a_service_keys_conversation_go_with_its_title(sqlite: Database):
    """And with its system prompt. What others said there stays; a conversation of nobody's words goes,
    another tenant's does not."""
    kept, service = ConversationStore(sqlite), ConversationOwner("p", "k", "")
    for conversation, request in (("c1", "r1"), ("c1", "r2"), ("c2", "r3"), ("c3", "r4")):
        await _turn(kept, service, conversation, request)
    await kept.open_turn("u", service, Turn("c1", "r1", "theirs", "tiny", 1))
    assert await erasure._erase_messages(sqlite, "t", ["r9"]) == 0
    assert await erasure._erase_messages(sqlite, "t", ["r1", "r3"]) == 4
    titles = {row.id: (row.title, row.system) for row in await kept.page("t", service, None)}
    assert titles == {"c1": ("", ""), "c3": ("what of r4", "as r4")}
    left = await kept.messages("t", service, "c1", 0)
    assert [row.content for row in left or ()] == ["what of r2", "that of r2"]
    (other,) = await kept.page("u", service, None)
    assert other.title == "theirs"
