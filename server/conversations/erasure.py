"""Erases the texts of a user or of a whole tenant, and lists all kept texts of a user.

Called by commands of billing (core/actions.py), which do not know this package.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, update
from sqlmodel import col, select

from billing.api import held_events_of, requests_of
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.sql.database import Database
from server.conversations.purge import CONVERSATIONS_AT_ONCE, forget_answer, purge
from server.conversations.recorder import PoolRecorders
from server.conversations.store import ConversationStore
from server.conversations.tables import Conversation, Message

AGAIN_SECONDS = 0.1
TRIES_MAX = 100
NAMED_MAX = 20


async def erase_texts(
    db: Database, redis: RedisClient, settings: Settings, tenant: str, user: str | None
) -> tuple[int, int]:
    """Delete the prompts and answers of a user (an id), or all of a tenant (None), in SQL and in Redis.
    Returns the number of conversations, and of messages in other owners' conversations. Pending requests are
    not reached.

    Raises Refused where some stay. Deleted ones are gone, and a repeated call deletes the rest.
    """
    recorders = PoolRecorders(redis, settings, ConversationStore(db), "")
    for pool in await announced_pools(redis, settings):
        recorders.keep(pool)
    conversations, broken = await _erase_conversations(db, recorders, tenant, user)
    messages = 0
    oldest_ms = now_ms() - recorders.known_ms
    async for page in _asked(db, tenant, user):
        for request in page:
            if request.accepted_ms > oldest_ms and not await forget_answer(recorders, tenant, request.id):
                broken.add(request.id)
        if user is not None:
            messages += await _erase_messages(db, tenant, [each.id for each in page])
    if broken:
        raise bad_request(_stays(tenant, sorted(broken)))
    return conversations, messages


async def texts_of(db: Database, tenant: str, user: str) -> AsyncGenerator[dict[str, Any]]:
    """All kept texts of a user: the user's conversations with all messages, then the user's messages in
    conversations of a service key."""
    owned = _owned(tenant, user)
    async with db.session() as session:
        found = (await session.exec(select(Conversation).where(*owned).order_by(col(Conversation.id)))).all()
    for row in found:
        of_it = col(Message.conversation_id) == row.id
        facts = {
            "kind": "conversation",
            "id": row.id,
            "title": row.title,
            "deleted": row.deleted_ms is not None,
        }
        yield facts | {"messages": await _messages(db, tenant, of_it)}
    theirs = {row.id for row in found}
    async for page in _asked(db, tenant, user):
        requests = [each.id for each in page if each.conversation not in theirs]
        messages = await _messages(db, tenant, col(Message.request_id).in_(requests)) if requests else []
        if messages:
            yield {"kind": "messages", "messages": messages}


class _AnyRequest(NamedTuple):
    """A request of a user or tenant, billed or not."""

    id: str
    conversation: str
    accepted_ms: int


async def _asked(db: Database, tenant: str, user: str | None) -> AsyncGenerator[list[_AnyRequest]]:
    async for page in requests_of(db, tenant, user):
        yield [_AnyRequest(each.request_id, each.conversation_id, each.accepted_ms) for each in page]
    async for event in held_events_of(db, tenant, user):
        yield [_AnyRequest(event.request, event.owner.conversation, event.accepted_ms)]


async def _messages(db: Database, tenant: str, which: ColumnElement[bool]) -> list[dict[str, Any]]:
    statement = select(Message).where(col(Message.tenant_id) == tenant, which)
    async with db.session() as session:
        rows = (
            await session.exec(statement.order_by(col(Message.conversation_id), col(Message.position)))
        ).all()
    names = {"conversation_id", "role", "content", "request_id", "model", "created_ms"}
    return [row.model_dump(include=names) for row in rows]


def _owned(tenant: str, user: str | None) -> list[ColumnElement[bool]]:
    of_tenant = col(Conversation.tenant_id) == tenant
    return [of_tenant] if user is None else [of_tenant, col(Conversation.user_id) == user]


def _stays(tenant: str, requests: list[str]) -> str:
    named = ", ".join(requests[:NAMED_MAX]) + (", …" if len(requests) > NAMED_MAX else "")
    keys = f"{{p:POOL}}req:{tenant}:REQUEST"
    return (
        f"all that could be erased is; of {len(requests)} requests the keys in Redis ({keys} and its like) "
        f"are not what they should be and stay: delete them there, then erase again. They are: {named}"
    )


async def _erase_conversations(
    db: Database, recorders: PoolRecorders, tenant: str, user: str | None
) -> tuple[int, set[str]]:
    gone, tries, broken = 0, 0, set[str]()
    while ids := await _hidden(db, tenant, user):
        done, stays = await purge(db, recorders, ids)
        gone += done
        broken |= stays
        if not done:  # a gateway has just these
            tries += 1
            if tries == TRIES_MAX:
                raise bad_request(f"a gateway is using {len(ids)} of the conversations: try again")
            await asyncio.sleep(AGAIN_SECONDS)
    return gone, broken


async def _hidden(db: Database, tenant: str, user: str | None) -> list[tuple[str, str]]:
    """Some conversations that are left, hidden from now on: a gateway that has not yet heard that their owner
    is closed may have made another one."""
    owned = _owned(tenant, user)
    async with db.transaction() as session:
        hidden = update(Conversation).where(*owned, col(Conversation.deleted_ms).is_(None))
        await session.exec(hidden.values(deleted_ms=now_ms()))
        some = select(Conversation.tenant_id, Conversation.id).where(*owned).limit(CONVERSATIONS_AT_ONCE)
        return [(owner, id) for owner, id in (await session.exec(some)).all()]


async def _erase_messages(db: Database, tenant: str, requests: Sequence[str]) -> int:
    """Erase messages of conversations that a service key keeps for several people, with titles: a title is
    somebody's first words."""
    theirs = (col(Message.tenant_id) == tenant, col(Message.request_id).in_(requests))
    async with db.erasing() as session:
        touched = (await session.exec(select(Message.conversation_id).where(*theirs).distinct())).all()
        done = await session.exec(delete(Message).where(*theirs))
        if touched:
            which = (col(Conversation.tenant_id) == tenant, col(Conversation.id).in_(touched))
            await session.exec(update(Conversation).where(*which).values(title=""))
            left = select(Message.conversation_id).where(
                col(Message.tenant_id) == tenant, col(Message.conversation_id).in_(touched)
            )
            empty = set(touched) - set((await session.exec(left.distinct())).all())
            gone = (col(Conversation.tenant_id) == tenant, col(Conversation.id).in_(empty))
            await session.exec(delete(Conversation).where(*gone))
        return done.rowcount
