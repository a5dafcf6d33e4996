"""What a turn follows is read from the cut of the last answer on, and never a whole long conversation."""

from typing import Any

import pytest
from sqlalchemy import event

from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.history import HistoryBounds, PromptContext, TurnHistory
from server.conversations.store import ConversationStore, RecordedAnswer, Turn

ANN = ConversationOwner("p", "", "ann")
BOUNDS = HistoryBounds(1_000, 100_000)


@pytest.fixture
def kept(database: Database) -> ConversationStore:
    """Of one database, SQLite and Postgres."""
    return ConversationStore(database)


async def talk(kept: ConversationStore, turns: int, **facts: Any) -> None:
    """Turns of c1, each answered."""
    for _ in range(turns):
        found = await kept.messages("t", ANN, "c1", 0)
        number = 0 if found is None else len(await every(kept))
        request = f"r{number}"
        turn = Turn("c1", request, f"question {number}", facts.get("model", "tiny"), 1_000 + number)
        await kept.open_turn("t", ANN, Turn(**{**turn.__dict__, **facts}))
        usage, timing = {"total": 2}, {"total_ms": 3}
        await kept.record("t", request, RecordedAnswer("hi", "stop", "", usage, timing, 7, 2, 9, 1_500))


async def every(kept: ConversationStore) -> list[str]:
    """Ids of all messages of c1."""
    found, ids = await kept.messages("t", ANN, "c1", 0), list[str]()
    while found:
        ids += [row.id for row in found]
        found = await kept.messages("t", ANN, "c1", found[-1].position)
    return ids


async def history(
    kept: ConversationStore, model: str = "tiny", bounds: HistoryBounds = BOUNDS
) -> TurnHistory:
    """What a turn of this model follows."""
    return await kept.history("t", ANN, "c1", model, bounds)


async def test_a_cut_holds_for_the_turns_after_it(kept: ConversationStore):
    """They begin where the last answer's prompt did; another model's turn is fitted anew."""
    await talk(kept, 5)
    ids = await every(kept)
    await talk(kept, 1, context=PromptContext(ids[6], kept=3, dropped=3, room=10))
    found = await history(kept)
    assert [turn.id for turn in found.turns[:2]] == [ids[6], ids[8]]
    assert (len(found.turns), found.dropped) == (3, 3)
    assert found.newest(1).dropped == 5
    assert len((await history(kept, "big")).turns) == 6


async def test_a_turn_that_stands_alone_is_the_cut_itself(kept: ConversationStore):
    """Its own message is the first that its prompt had."""
    await talk(kept, 2)
    await talk(kept, 1, context=PromptContext("", kept=1, dropped=2, room=0))
    found = await history(kept)
    assert [message["content"] for message in found.messages] == ["question 4", "hi"]
    assert found.dropped == 2


async def test_a_long_conversation_is_read_to_its_bound(kept: ConversationStore, database: Database):
    """A little more than a prompt may have, and no row before that."""
    await talk(kept, 130)
    statements = list[str]()

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    found = await history(kept, bounds=HistoryBounds(20, 100_000))
    event.remove(engine, "before_cursor_execute", note)
    assert sum(len(turn.rows) for turn in found.turns) == 21
    assert len(found.turns) + found.dropped == 131  # the oldest read one is not whole: it is never kept
    assert sum("content" in statement for statement in statements) == 1
    by_text = await history(kept, bounds=HistoryBounds(1_000, 100))
    assert 100 < sum(len(each["content"]) for each in by_text.messages) < 125


async def test_all_pages_of_what_fits_are_read(kept: ConversationStore):
    """In their order, across the pages' ends."""
    await talk(kept, 130)
    found = await history(kept)
    assert (len(found.turns), found.dropped) == (130, 0)
    assert [turn.messages[0]["content"] for turn in found.turns] == [f"question {n * 2}" for n in range(130)]
