"""Conversations of a virtual gateway, in memory."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec

from server.access.authorization import ConversationOwner
from server.conversations.history import TurnHistory, turns_of
from server.conversations.store import Turn, conversation_busy, conversation_not_found
from server.conversations.tables import Message, MessageStatus


@dataclass
class Stored:
    """A conversation."""

    owner: ConversationOwner
    messages: list[Any] = field(default_factory=list[Any])
    deleted: bool = False
    system: str = ""


class MemoryConversations:
    """Conversations as server/conversations/store.py has them, but for their listing."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Stored] = {}

    async def history(self, tenant: str, owner: ConversationOwner, conversation: str, *_: Any) -> TurnHistory:
        """The turns so far: all of them, or from the last answer's cut on."""
        found = self._found.get((tenant, conversation))
        if found is None:
            return TurnHistory()
        if found.owner != owner or found.deleted:
            raise conversation_not_found(conversation)
        if any(each.status == MessageStatus.RUNNING for each in found.messages):
            raise conversation_busy()
        rows: list[Any] = list(reversed(found.messages))
        turns = turns_of(rows)
        context = rows[0].context if rows else None
        first = context["first"] if context else ""
        cut = next((at for at, turn in enumerate(turns) if turn.id == first), 0)
        return TurnHistory(turns[cut:], cut, found.system)

    async def newest_model(self, *_: Any) -> None:
        """There is one model."""

    async def open_turn(self, tenant: str, owner: ConversationOwner, turn: Turn) -> str | None:
        """The user's message and the answer's running row."""
        at = tenant, turn.conversation
        found = self._found.setdefault(at, Stored(owner))
        if any(each.request_id == turn.request for each in found.messages):
            return None
        await self.history(tenant, owner, turn.conversation)
        mine = {"request_id": turn.request, "epoch": 1, "head": 0, "usage": {}, "timing": {}, "code": ""}
        own, number = f"message {turn.request}", len(found.messages)
        mine |= {"flags": None, "safety": None, "context": None}
        user = {**mine, "id": own, "role": "user", "content": turn.content, "status": MessageStatus.ENDED}
        user["flags"] = msgspec.to_builtins(turn.flags) or None
        answer = {**mine, "id": f"message {number}", "role": "assistant", "content": "", "reason": ""}
        answer |= {"status": MessageStatus.RUNNING, "cost_nano": 0}
        answer["context"] = turn.context.packed(own, turn.max_tokens) if turn.context else None
        found.messages += [
            SimpleNamespace(**each) for each in ([answer] if turn.continues else [user, answer])
        ]
        replaced = None if turn.system is None else found.system
        found.system = found.system if turn.system is None else turn.system
        return replaced

    async def abandon(self, tenant: str, request: str, replaced: str | None = None) -> None:
        """Take back a turn that the queue refused."""
        for (of, _), found in self._found.items():
            if of == tenant:
                if replaced is not None and any(each.request_id == request for each in found.messages):
                    found.system = replaced
                found.messages = [each for each in found.messages if each.request_id != request]

    async def answer_row(self, tenant: str, request: str) -> tuple[Message, ConversationOwner] | None:
        """The stored answer of a request, and whose it is."""
        for (of, _), found in self._found.items():
            rows = [each for each in found.messages if each.request_id == request and each.role != "user"]
            if of == tenant and rows and not found.deleted:
                return rows[0], found.owner
        return None

    def record(
        self, tenant: str, request: str, text: str, flags: list[Any], head: int, end: dict[str, Any]
    ) -> None:
        """Complete an answer's row."""
        for (of, _), found in self._found.items():
            for row in found.messages:
                if of == tenant and row.request_id == request and row.status == MessageStatus.RUNNING:
                    row.content, row.status, row.head = text, MessageStatus.ENDED, head
                    row.flags, row.safety = flags, end.get("safety")
                    row.reason, row.code = end["reason"], end.get("code", "")
                    row.usage, row.timing, row.cost_nano = end["usage"], end["timing"], end["cost"]["nano"]
