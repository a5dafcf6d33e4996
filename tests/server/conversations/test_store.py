"""What is kept of conversations: whose they are, what they hold, in which order they are listed."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import col, delete

from billing.api import create_tenant
from billing.tables.tenants import TenantUser
from core.errors import Refused
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.history import HistoryBounds, TurnHistory
from server.conversations.store import PAGE_ROWS, ConversationStore, RecordedAnswer, Turn
from server.conversations.tables import Conversation, Message
from server.protocol.flags import EndSafety, LoggedFlag

ANN = ConversationOwner("p", "", "ann")
OTHERS = [
    ConversationOwner("q", "", "ann"),
    ConversationOwner("p", "k", "ann"),
    ConversationOwner("p", "", "bob"),
]
TURN = Turn("c1", "r1", "hello", "tiny", 1_000)
FLAG = {"category": "card", "action": "redact", "scope": "tenant"}
ANSWER = RecordedAnswer("hi", "stop", "", {"total": 2}, {"total_ms": 3}, 7, 2, 9, 1_500)


@pytest.fixture
def kept(sqlite: Database) -> ConversationStore:
    """Of one database."""
    return ConversationStore(sqlite)


async def refused(work: Coroutine[Any, Any, object]) -> tuple[str, str, bool, int | None]:
    """How it was refused."""
    with pytest.raises(Refused) as found:
        await work
    said = found.value.refusal
    return said.code, said.message, said.retry, said.after_ms


def unknown(conversation: str) -> tuple[str, str, bool, int | None]:
    """As strangers hear."""
    message = f"there is no conversation {conversation} of yours; make a new id"
    return "unknown_conversation", message, False, None


BUSY = (
    "conversation_busy",
    "an answer is still running in this conversation: wait for its end, or cancel it",
    True,
    1_000,
)


async def history(kept: ConversationStore, tenant: str = "t", owner: ConversationOwner = ANN) -> TurnHistory:
    """What a turn in c1 follows."""
    return await kept.history(tenant, owner, "c1", "tiny", HistoryBounds(100, 10_000))


async def rows(kept: ConversationStore, tenant: str = "t") -> list[tuple[Any, ...]]:
    """The messages of c1."""
    found = await kept.messages(tenant, ANN, "c1", 0)
    return [(row.position, row.role, row.content, row.request_id, row.status) for row in found or ()]


async def test_a_system_prompt_stays_until_another_one_comes(kept: ConversationStore):
    """Also an empty one. It is its owner's, and what a refused turn replaced comes back."""
    assert await kept.system("t", ANN, "c1") == ""
    assert await kept.open_turn("t", ANN, replace(TURN, system="be kind")) == ""
    assert await kept.open_turn("t", ANN, replace(TURN, system="be kind")) is None, "the same turn again"
    assert await kept.record("t", "r1", ANSWER)
    assert await kept.open_turn("t", ANN, replace(TURN, request="r2")) is None
    await kept.abandon("t", "r2")
    assert await kept.system("t", ANN, "c1") == "be kind"
    followed = await history(kept)
    assert (followed.system, followed.newest(0).system) == ("be kind", "be kind"), (
        "a turn reads it with those before"
    )
    assert [await kept.system("t", other, "c1") for other in OTHERS] == ["", "", ""]
    for system in ("be rude", ""):
        replaced = await kept.open_turn("t", ANN, replace(TURN, request="r3", system=system))
        assert (replaced, await kept.system("t", ANN, "c1")) == ("be kind", system)
        await kept.abandon("t", "r3", replaced)
        assert await kept.system("t", ANN, "c1") == "be kind"
    assert await kept.delete("t", ANN, "c1", 2_000)
    assert await kept.system("t", ANN, "c1") == ""


async def test_a_turn_is_two_rows_and_a_conversation(kept: ConversationStore):
    """The same request again changes nothing; the next turn comes behind, and the title stays."""
    assert await history(kept) == TurnHistory()
    said = " what \n is\t" + "x" * 100
    await kept.open_turn("t", ANN, replace(TURN, content=said))
    await kept.open_turn("t", ANN, replace(TURN, content="again", now_ms=1_100))
    (row,) = await kept.page("t", ANN, None)
    assert (row.id, row.title, row.created_ms, row.updated_ms) == (
        "c1",
        "what is " + "x" * 71 + "…",
        1_000,
        1_000,
    )
    assert await kept.record("t", "r1", ANSWER)
    await kept.open_turn("t", ANN, Turn("c1", "r2", "and?", "big", 2_000))
    (row,) = await kept.page("t", ANN, None)
    assert (row.title, row.created_ms, row.updated_ms) == ("what is " + "x" * 71 + "…", 1_000, 2_000)
    assert await rows(kept) == [
        (1, "user", said, "r1", "ended"),
        (2, "assistant", "hi", "r1", "ended"),
        (3, "user", "and?", "r2", "ended"),
        (4, "assistant", "", "r2", "running"),
    ]
    found = await kept.messages("t", ANN, "c1", 2)
    assert found is not None
    assert [(each.model, each.created_ms, each.ended_ms) for each in found] == [
        ("", 2_000, None),
        ("big", 2_000, None),
    ]


async def test_history_is_what_was_said_once_nothing_runs(kept: ConversationStore):
    """While an answer runs there is none, and no other turn."""
    await kept.open_turn("t", ANN, TURN)
    assert await refused(history(kept)) == BUSY
    assert await refused(kept.open_turn("t", ANN, replace(TURN, request="r2"))) == BUSY
    await kept.record("t", "r1", ANSWER)
    assert (await history(kept)).messages == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
    ]


@pytest.mark.parametrize("other", OTHERS)
async def test_what_is_anothers_is_unknown(kept: ConversationStore, other: ConversationOwner):
    """Of another project, key or user; in another tenant the id is free."""
    await kept.open_turn("t", ANN, TURN)
    assert await refused(history(kept, owner=other)) == unknown("c1")
    assert await refused(kept.open_turn("t", other, replace(TURN, request="r2"))) == unknown("c1")
    assert await kept.messages("t", other, "c1", 0) is None
    assert not await kept.delete("t", other, "c1", 5)
    assert await kept.page("t", other, None) == []
    assert await history(kept, "u") == TurnHistory()
    assert await kept.messages("u", ANN, "c1", 0) is None
    assert await kept.page("u", ANN, None) == []
    assert not await kept.delete("u", ANN, "c1", 5)
    assert len(await rows(kept)) == 2


async def test_what_is_deleted_is_unknown_to_everybody(kept: ConversationStore):
    """At once, and once."""
    await kept.open_turn("t", ANN, TURN)
    await kept.open_turn("t", ANN, Turn("c2", "r2", "other", "tiny", 900))
    await kept.open_turn("u", ANN, TURN)
    assert await kept.delete("t", ANN, "c1", 5_000)
    assert not await kept.delete("t", ANN, "c1", 6_000)
    assert not await kept.delete("t", ANN, "no such", 6_000)
    assert await refused(history(kept)) == unknown("c1")
    assert await refused(kept.open_turn("t", ANN, replace(TURN, request="r3"))) == unknown("c1")
    assert await kept.messages("t", ANN, "c1", 0) is None
    assert await kept.answer_row("t", "r1") is None
    assert [row.id for row in await kept.page("t", ANN, None)] == ["c2"]
    assert len(await rows(kept, "u")) == 2


async def test_an_answer_is_recorded_once(kept: ConversationStore):
    """Of its tenant and request alone, in the answer's row."""
    for tenant, conversation, request in (("t", "c1", "r1"), ("t", "c2", "r2"), ("u", "c1", "r1")):
        await kept.open_turn(tenant, ANN, Turn(conversation, request, "hello", "tiny", 1_000))
    assert not await kept.record("t", "r9", ANSWER)
    assert not await kept.record("v", "r1", ANSWER)
    marked = {"flags": [LoggedFlag("card", "redact", "tenant", 0, 2)], "safety": EndSafety("card", "tenant")}
    assert await kept.record("t", "r1", replace(ANSWER, code="x", **marked))
    assert not await kept.record("t", "r1", replace(ANSWER, text="another"))
    row, owner = await found(kept.answer_row("t", "r1"))
    assert owner == ANN
    assert (row.conversation_id, row.role, row.content, row.status) == ("c1", "assistant", "hi", "ended")
    assert (row.reason, row.code, row.usage, row.timing) == ("stop", "x", {"total": 2}, {"total_ms": 3})
    assert (row.cost_nano, row.epoch, row.head, row.ended_ms) == (7, 2, 9, 1_500)
    assert (row.flags, row.safety) == ([{**FLAG, "p": 0, "n": 2}], {"category": "card", "scope": "tenant"})
    for tenant, request in (("t", "r2"), ("u", "r1")):
        row, _ = await found(kept.answer_row(tenant, request))
        assert (row.status, row.content, row.cost_nano) == ("running", "", 0)
    assert await kept.answer_row("u", "r2") is None


async def found(
    asked: Coroutine[Any, Any, tuple[Message, ConversationOwner] | None],
) -> tuple[Message, ConversationOwner]:
    """It is there."""
    row = await asked
    assert row is not None
    return row


async def test_what_runs_is_found_by_its_conversation(kept: ConversationStore):
    """Of this tenant; of several those that were asked for."""
    for tenant, conversation, request in (("t", "c1", "r1"), ("t", "c2", "r2"), ("u", "c3", "r3")):
        await kept.open_turn(tenant, ANN, Turn(conversation, request, "hello", "tiny", 1_000))
    await kept.record("t", "r2", ANSWER)
    row = await kept.running("t", "c1")
    assert row is not None
    assert (row.request_id, row.role) == ("r1", "assistant")
    for tenant, conversation in (("t", "c2"), ("t", "c3"), ("u", "c1")):
        assert await kept.running(tenant, conversation) is None
    assert await kept.running_in("t", ["c1", "c2", "c3"]) == {"c1"}
    assert await kept.running_in("t", ["c2", "c3"]) == set()


async def test_a_turn_that_was_refused_is_taken_back(kept: ConversationStore):
    """Both of its rows, and no other's."""
    for tenant, conversation, request in (("t", "c1", "r1"), ("t", "c2", "r2"), ("u", "c1", "r1")):
        await kept.open_turn(tenant, ANN, Turn(conversation, request, "hello", "tiny", 1_000))
    await kept.abandon("t", "r1")
    assert await history(kept) == TurnHistory()
    assert len(await rows(kept, "u")) == 2
    assert await kept.running("t", "c2") is not None


async def test_conversations_are_listed_last_used_first(
    kept: ConversationStore, monkeypatch: pytest.MonkeyPatch
):
    """Of one time by their ids; a page goes on exactly where the one before ended."""
    monkeypatch.setattr("server.conversations.store.PAGE_ROWS", 2)
    for id, at in (("a", 10), ("b", 30), ("c", 20), ("d", 20), ("e", 20)):
        await kept.open_turn("t", ANN, Turn(id, f"r{id}", "hello", "tiny", at))
    pages, cursor = list[list[str]](), None
    while len(pages) < 4 and (page := await kept.page("t", ANN, cursor)):
        pages.append([row.id for row in page])
        cursor = (page[-1].updated_ms, page[-1].id)
    assert pages == [["b", "e"], ["d", "c"], ["a"]]
    assert PAGE_ROWS == 50


async def test_messages_come_by_pages(kept: ConversationStore, monkeypatch: pytest.MonkeyPatch):
    """In their order, behind a position."""
    monkeypatch.setattr("server.conversations.store.PAGE_ROWS", 3)
    for number in range(3):
        await kept.open_turn("t", ANN, Turn("c1", f"r{number}", "hello", "tiny", number))
        await kept.record("t", f"r{number}", ANSWER)
    pages = [await kept.messages("t", ANN, "c1", after) for after in (0, 3, 6)]
    assert [[row.position for row in page or ()] for page in pages] == [[1, 2, 3], [4, 5, 6], []]


async def test_a_turn_in_a_conversation_that_is_erased_meanwhile_comes_again(database: Database):
    """Erasing took its last words and its row while the turn was being stored: it is busy, or made anew."""
    kept = ConversationStore(database)
    await kept.open_turn("t", ANN, TURN)
    await kept.record("t", "r1", ANSWER)
    async with database.erasing() as session:
        row = await session.get(Conversation, ("t", "c1"), with_for_update=True)
        assert row is not None
        turn = asyncio.create_task(kept.open_turn("t", ANN, replace(TURN, request="r2", now_ms=2_000)))
        for _ in range(20):
            async with database.session() as other:
                await other.get(Conversation, ("t", "c1"))
        await session.exec(delete(Message).where(col(Message.tenant_id) == "t"))
        await session.delete(row)
        await session.commit()
    try:
        await turn
    except Refused as refused:
        assert refused.refusal.code == "conversation_busy"  # noqa: PT017
        await kept.open_turn("t", ANN, replace(TURN, request="r2"))
    assert [each[3] for each in await rows(kept)] == ["r2", "r2"]


async def test_only_a_user_who_is_closed_gets_no_turn(kept: ConversationStore):
    """One whom no row knows does: the links of `parley up` name such a user."""
    tenant = await create_tenant(kept.db, "acme")
    id = tenant.tenant_id
    await kept.open_turn(id, ANN, replace(TURN, user="of a link"))
    async with kept.db.transaction() as session:
        session.add(TenantUser(tenant_id=id, id="u_1", name="ann", created_ms=1, closed_ms=2))
    closed = replace(TURN, conversation="c2", request="r2", user="u_1")
    said = await refused(kept.open_turn(id, ANN, closed))
    assert said[:2] == ("forbidden", "this user or account is closed")
    assert await kept.running(id, "c2") is None
