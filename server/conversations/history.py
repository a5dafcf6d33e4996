"""Reads what a new turn of a conversation follows: its newest turns, in pages, back to the cut that its last
answer had; without one, as many as a prompt may have. Never a whole conversation of any length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from server.conversations.tables import Message, MessageStatus
from server.models.prompts import ChatMessage

PAGE_ROWS = 100


@dataclass(frozen=True)
class HistoryBounds:
    """The most that is read: a little more than this, so that it is known not to fit."""

    messages: int
    characters: int


@dataclass(frozen=True)
class StoredTurn:
    """A turn: its rows, and its messages as in prompts: the parts of an answer that went on are one."""

    rows: tuple[Message, ...]
    messages: tuple[ChatMessage, ...]

    @property
    def id(self) -> str:
        """Id of its first message."""
        return self.rows[0].id

    @property
    def characters(self) -> int:
        """Size of its texts."""
        return sum(len(message["content"]) for message in self.messages)


@dataclass(frozen=True)
class TurnHistory:
    """Newest turns, oldest first; `dropped` turns are before them. `system`: what the conversation's prompts
    begin with; empty: nothing."""

    turns: tuple[StoredTurn, ...] = ()
    dropped: int = 0
    system: str = ""

    @property
    def messages(self) -> list[ChatMessage]:
        """The messages of all turns."""
        return [message for turn in self.turns for message in turn.messages]

    def newest(self, kept: int) -> "TurnHistory":
        """The same without its oldest turns."""
        gone = len(self.turns) - kept
        return replace(self, turns=self.turns[gone:], dropped=self.dropped + gone)


@dataclass(frozen=True)
class PromptContext:
    """What of a conversation a prompt had. `first`: id of its first message, empty: this turn's own; turns
    `kept` (this one too) and `dropped`; `room`: tokens that turns may still have before some are dropped."""

    first: str
    kept: int
    dropped: int
    room: int

    def packed(self, own: str, max_tokens: int) -> dict[str, str | int]:
        """As the answer's row has it, with its most tokens. `own`: id of the turn's own message."""
        turns: dict[str, str | int] = {"kept": self.kept, "dropped": self.dropped, "room": self.room}
        return {"first": self.first or own, **turns, "max_tokens": max_tokens}


async def read_history(
    session: AsyncSession, tenant: str, conversation: str, model: str, bounds: HistoryBounds
) -> TurnHistory | None:
    """The history that a turn for `model` follows; None while an answer runs. The cut of the last answer
    holds where that was the same model's."""
    rows = list[Message]()
    first, dropped, characters = "", 0, 0
    while True:
        page = await _page_before(session, tenant, conversation, rows[-1].position if rows else None)
        if any(row.status == MessageStatus.RUNNING for row in page):
            return None
        if not rows and page:
            first, dropped = _cut(page[0], model)
        for row in page:
            rows.append(row)
            characters += len(row.content)
            if row.id == first:
                return TurnHistory(turns_of(rows), dropped)
            if len(rows) > bounds.messages or characters > bounds.characters:
                before = await _turns_before(session, tenant, conversation, row.position)
                return TurnHistory(turns_of(rows), before)
        if len(page) < PAGE_ROWS:
            return TurnHistory(turns_of(rows))


def _cut(newest: Message, model: str) -> tuple[str, int]:
    facts: dict[str, Any] = newest.context or {}
    return (facts["first"], facts["dropped"]) if facts and newest.model == model else ("", 0)


def turns_of(rows: Sequence[Message]) -> tuple[StoredTurn, ...]:
    """The turns in rows that are newest first."""
    turns = list[list[Message]]()
    for row in reversed(rows):
        if row.role == "user" or not turns:
            turns.append([])
        turns[-1].append(row)
    return tuple(StoredTurn(tuple(turn), _joined(turn)) for turn in turns)


def _joined(rows: Sequence[Message]) -> tuple[ChatMessage, ...]:
    messages = list[ChatMessage]()
    for row in rows:
        before = messages.pop()["content"] if messages and messages[-1]["role"] == row.role else ""
        messages.append({"role": row.role, "content": before + row.content})
    return tuple(messages)


async def _page_before(
    session: AsyncSession, tenant: str, conversation: str, position: int | None
) -> Sequence[Message]:
    of_it = (col(Message.tenant_id) == tenant, col(Message.conversation_id) == conversation)
    statement = select(Message).where(*of_it)
    if position is not None:
        statement = statement.where(col(Message.position) < position)
    return (await session.exec(statement.order_by(col(Message.position).desc()).limit(PAGE_ROWS))).all()


async def _turns_before(session: AsyncSession, tenant: str, conversation: str, position: int) -> int:
    statement = select(func.count()).where(
        col(Message.tenant_id) == tenant,
        col(Message.conversation_id) == conversation,
        col(Message.position) < position,
        col(Message.role) == "user",
    )
    return (await session.exec(statement)).one()
