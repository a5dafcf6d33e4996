"""Conversations in SQL: their history, the two rows of a turn, listing and deleting.

Every query names tenant and owner. A turn inserts the user's message and the answer's row (running) in one
transaction; the recorder completes the row (server/conversations/recorder.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, delete, func, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.exc import StaleDataError
from sqlmodel import col, select

from billing.api import is_open
from core.errors import Refused
from core.ids import uuid7
from core.sql.database import Database
from engine.api import Flag
from server.access.authorization import ConversationOwner
from server.conversations.history import HistoryBounds, PromptContext, TurnHistory, read_history
from server.conversations.tables import Conversation, Message, MessageStatus
from server.conversations.titles import title_of
from server.protocol.codes import ErrorCode, refusal
from server.protocol.flags import EndSafety, LoggedFlag

PAGE_ROWS = 50


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation: the user's message, and the request that answers it. `key`: the sender's
    owner key; `user`: id of the user it is charged to, empty for none; `flags`: what safety marked in the
    message; `system`: what the conversation's system prompt is from now on, None: what it was; `context`:
    what its prompt had of the conversation; `max_tokens`: of its answer; `continues`: id of the answer that
    goes on, without a message."""

    conversation: str
    request: str
    content: str
    model: str
    now_ms: int
    key: str = ""
    user: str = ""
    flags: Sequence[Flag] = ()
    system: str | None = None
    context: PromptContext | None = None
    max_tokens: int = 0
    continues: str = ""


@dataclass(frozen=True)
class RecordedAnswer:
    """An answer, as the end of its request's log has it."""

    text: str
    reason: str
    code: str
    usage: Mapping[str, Any]
    timing: Mapping[str, Any]
    cost_nano: int
    epoch: int
    head: int
    ended_ms: int
    flags: Sequence[LoggedFlag] = ()
    safety: EndSafety | None = None


class ConversationStore:
    """All queries of this package on the conversation tables."""

    def __init__(self, db: Database) -> None:
        self.db = db

    async def history(
        self, tenant: str, owner: ConversationOwner, conversation: str, model: str, bounds: HistoryBounds
    ) -> TurnHistory:
        """What a turn for `model` follows, and the system prompt; nothing for an id that nobody used.

        Raises Refused: unknown_conversation where it is somebody else's or deleted, conversation_busy where
        an answer in it is still running.
        """
        async with self.db.session() as session:
            row = await session.get(Conversation, (tenant, conversation))
            if row is None:
                return TurnHistory()
            if row.deleted_ms is not None or _owner(row) != owner:
                raise conversation_not_found(conversation)
            found = await read_history(session, tenant, conversation, model, bounds)
        if found is None:
            raise conversation_busy()
        return replace(found, system=row.system)

    async def system(self, tenant: str, owner: ConversationOwner, conversation: str) -> str:
        """A conversation's system prompt; empty for an id nobody used, and for another owner's."""
        async with self.db.session() as session:
            statement = select(Conversation.system).where(
                *_owned(tenant, owner),
                col(Conversation.id) == conversation,
                col(Conversation.deleted_ms).is_(None),
            )
            return (await session.exec(statement)).first() or ""

    async def newest_model(self, tenant: str, owner: ConversationOwner, conversation: str) -> str | None:
        """The model of a conversation's newest answer; None where nobody used it, or another owner."""
        of_it = (col(Message.tenant_id) == tenant, col(Message.conversation_id) == conversation)
        mine = select(Conversation.id).where(*_owned(tenant, owner), col(Conversation.id) == conversation)
        newest = select(Message.model).where(
            *of_it, col(Message.role) == "assistant", col(Message.conversation_id).in_(mine)
        )
        async with self.db.session() as session:
            return (await session.exec(newest.order_by(col(Message.position).desc()).limit(1))).first()

    async def open_turn(self, tenant: str, owner: ConversationOwner, turn: Turn) -> str | None:
        """Insert the user's message and the answer's running row; make the conversation at its first turn.
        Returns the system prompt that it replaces, None where it replaces none.

        The same request again changes nothing. Raises Refused as `history` does, and where the user or the
        tenant was closed meanwhile: what erasing has looked through gets no new rows.
        """
        try:
            async with self.db.transaction() as session:
                if not await is_open(session, tenant, turn.user):
                    raise Refused(refusal(ErrorCode.FORBIDDEN, "this user or account is closed"))
                row = await session.get(Conversation, (tenant, turn.conversation))
                if row is None and not turn.continues:
                    row = _new_conversation(tenant, owner, turn)
                elif row is None or row.deleted_ms is not None or _owner(row) != owner:
                    raise conversation_not_found(turn.conversation)
                where = (col(Message.tenant_id) == tenant) & (
                    col(Message.conversation_id) == turn.conversation
                )
                known = select(Message.id).where(where, col(Message.request_id) == turn.request)
                if (await session.exec(known)).first() is not None:
                    return None
                last = (await session.exec(select(func.max(Message.position)).where(where))).one() or 0
                if turn.continues:
                    newest = select(Message.id).where(where, col(Message.position) == last)
                    if (await session.exec(newest)).first() != turn.continues:
                        raise conversation_busy()  # another turn came between
                row.updated_ms = turn.now_ms
                replaced = None if turn.system is None else row.system
                row.system = row.system if turn.system is None else turn.system
                session.add(row)
                session.add_all(_rows(tenant, turn, last))
                return replaced
        except (IntegrityError, StaleDataError) as error:  # another turn, or its end, came between
            raise conversation_busy() from error

    async def abandon(self, tenant: str, request: str, replaced: str | None = None) -> None:
        """Take back a turn that the queue refused. `replaced`: the system prompt of before; None:
        the same."""
        async with self.db.transaction() as session:
            mine = (col(Message.tenant_id) == tenant, col(Message.request_id) == request)
            if replaced is not None:
                of = select(Message.conversation_id).where(*mine)
                where = (col(Conversation.tenant_id) == tenant, col(Conversation.id).in_(of))
                await session.exec(update(Conversation).where(*where).values(system=replaced))
            await session.exec(delete(Message).where(*mine))

    async def record(self, tenant: str, request: str, answer: RecordedAnswer) -> bool:
        """Complete an answer's row. False: there is no running row of it (recorded, deleted, or unstored)."""
        values = {
            "content": answer.text,
            "status": MessageStatus.ENDED.value,
            "reason": answer.reason,
            "code": answer.code,
            "usage": dict(answer.usage),
            "timing": dict(answer.timing),
            "cost_nano": answer.cost_nano,
            "epoch": answer.epoch,
            "head": answer.head,
            "ended_ms": answer.ended_ms,
            "flags": msgspec.to_builtins(answer.flags),
            "safety": msgspec.to_builtins(answer.safety),
        }
        async with self.db.transaction() as session:
            done = await session.exec(update(Message).where(*_running(tenant, request)).values(**values))
            return done.rowcount > 0

    async def has_rows(self, tenant: str, request: str) -> bool:
        """True where a request has a message, also in a hidden conversation."""
        found = select(Message.id).where(col(Message.tenant_id) == tenant, col(Message.request_id) == request)
        async with self.db.session() as session:
            return (await session.exec(found.limit(1))).first() is not None

    async def running(self, tenant: str, conversation: str) -> Message | None:
        """The answer that runs in a conversation."""
        statement = select(Message).where(
            col(Message.tenant_id) == tenant,
            col(Message.conversation_id) == conversation,
            col(Message.status) == MessageStatus.RUNNING.value,
        )
        async with self.db.session() as session:
            return (await session.exec(statement)).first()

    async def answer_row(self, tenant: str, request: str) -> tuple[Message, ConversationOwner] | None:
        """The stored answer of a request with its owner, for readers who come after the log is gone."""
        statement = (
            select(Message, Conversation)
            .join(
                Conversation,
                (col(Conversation.tenant_id) == col(Message.tenant_id))
                & (col(Conversation.id) == col(Message.conversation_id)),
            )
            .where(
                col(Message.tenant_id) == tenant,
                col(Message.request_id) == request,
                col(Message.role) == "assistant",
                col(Conversation.deleted_ms).is_(None),
            )
        )
        async with self.db.session() as session:
            found = (await session.exec(statement)).first()
        return (found[0], _owner(found[1])) if found else None

    async def page(
        self, tenant: str, owner: ConversationOwner, cursor: tuple[int, str] | None
    ) -> Sequence[Conversation]:
        """An owner's conversations, last used first, after `cursor` (updated_ms, id): PAGE_ROWS at most."""
        statement = select(Conversation).where(*_owned(tenant, owner), col(Conversation.deleted_ms).is_(None))
        if cursor is not None:
            at, id = cursor
            older = col(Conversation.updated_ms) < at
            statement = statement.where(
                older | ((col(Conversation.updated_ms) == at) & (col(Conversation.id) < id))
            )
        order = (col(Conversation.updated_ms).desc(), col(Conversation.id).desc())
        async with self.db.session() as session:
            return (await session.exec(statement.order_by(*order).limit(PAGE_ROWS))).all()

    async def running_in(self, tenant: str, conversations: Sequence[str]) -> set[str]:
        """Of these conversations, those in which an answer runs."""
        statement = select(Message.conversation_id).where(
            col(Message.tenant_id) == tenant,
            col(Message.conversation_id).in_(conversations),
            col(Message.status) == MessageStatus.RUNNING.value,
        )
        async with self.db.session() as session:
            return set((await session.exec(statement)).all())

    async def messages(
        self, tenant: str, owner: ConversationOwner, conversation: str, after: int
    ) -> Sequence[Message] | None:
        """A page of an owner's conversation from position `after` + 1 on. None: it is another owner's."""
        async with self.db.session() as session:
            row = await session.get(Conversation, (tenant, conversation))
            if row is None or row.deleted_ms is not None or _owner(row) != owner:
                return None
            page = _messages(tenant, conversation).where(col(Message.position) > after).limit(PAGE_ROWS)
            return (await session.exec(page)).all()

    async def rename(self, tenant: str, owner: ConversationOwner, conversation: str, title: str) -> bool:
        """Give a conversation another title. False: it is another owner's."""
        mine = (*_owned(tenant, owner), col(Conversation.id) == conversation)
        named = update(Conversation).where(*mine, col(Conversation.deleted_ms).is_(None))
        async with self.db.transaction() as session:
            return (await session.exec(named.values(title=title))).rowcount > 0

    async def delete(self, tenant: str, owner: ConversationOwner, conversation: str, now_ms: int) -> bool:
        """Hide a conversation from everyone at once. False: it is another owner's."""
        hide = update(Conversation).where(
            *_owned(tenant, owner),
            col(Conversation.id) == conversation,
            col(Conversation.deleted_ms).is_(None),
        )
        async with self.db.transaction() as session:
            return (await session.exec(hide.values(deleted_ms=now_ms))).rowcount > 0


def conversation_not_found(conversation: str) -> Refused:
    """The refusal for conversations that are unknown, another owner's or deleted: all alike (INV-16)."""
    return Refused(
        refusal(
            ErrorCode.UNKNOWN_CONVERSATION, f"there is no conversation {conversation} of yours; make a new id"
        )
    )


def conversation_busy() -> Refused:
    """The refusal of a second request: one at a time runs in a conversation."""
    return Refused(
        refusal(
            ErrorCode.CONVERSATION_BUSY,
            "an answer is still running in this conversation: wait for its end, or cancel it",
            after_ms=1000,
        )
    )


def _owner(row: Conversation) -> ConversationOwner:
    return ConversationOwner(row.project_id, row.owner_key, row.user_id)


def _owned(tenant: str, owner: ConversationOwner) -> tuple[ColumnElement[bool], ...]:
    return (
        col(Conversation.tenant_id) == tenant,
        col(Conversation.project_id) == owner.project,
        col(Conversation.owner_key) == owner.key,
        col(Conversation.user_id) == owner.user,
    )


def _messages(tenant: str, conversation: str) -> Any:
    return (
        select(Message)
        .where(col(Message.tenant_id) == tenant, col(Message.conversation_id) == conversation)
        .order_by(col(Message.position))
    )


def _running(tenant: str, request: str) -> tuple[ColumnElement[bool], ...]:
    return (
        col(Message.tenant_id) == tenant,
        col(Message.request_id) == request,
        col(Message.role) == "assistant",
        col(Message.status) == MessageStatus.RUNNING.value,
    )


def _new_conversation(tenant: str, owner: ConversationOwner, turn: Turn) -> Conversation:
    return Conversation(
        tenant_id=tenant,
        id=turn.conversation,
        project_id=owner.project,
        owner_key=owner.key,
        user_id=owner.user,
        title=title_of(turn.content),
        created_ms=turn.now_ms,
        updated_ms=turn.now_ms,
    )


def _rows(tenant: str, turn: Turn, last: int) -> list[Message]:
    flags = msgspec.to_builtins(turn.flags)
    common: dict[str, Any] = {
        "tenant_id": tenant,
        "conversation_id": turn.conversation,
        "request_id": turn.request,
        "created_ms": turn.now_ms,
        "owner_key": turn.key,
        "user_id": turn.user,
    }
    user = Message(
        **common,
        id=uuid7(turn.now_ms),
        position=last + 1,
        role="user",
        content=turn.content,
        status=MessageStatus.ENDED.value,
        flags=flags or None,
    )
    answer = Message(
        **common,
        id=uuid7(turn.now_ms),
        position=last + (1 if turn.continues else 2),
        role="assistant",
        content="",
        status=MessageStatus.RUNNING.value,
        model=turn.model,
        parent_id=turn.continues,
        context=turn.context.packed(user.id, turn.max_tokens) if turn.context else None,
    )
    return [answer] if turn.continues else [user, answer]
