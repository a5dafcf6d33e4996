"""Erases the texts of a user or of a whole tenant, and lists all kept texts of a user.

Called by commands of billing (core/actions.py), which do not know this package.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, update
from sqlmodel import col, select

from billing.api import held_events_of, requests_of, wait_for_writers
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database
from server.conversations.purge import CONVERSATIONS_AT_ONCE, forget_answer, purge
from server.conversations.recorder import PoolRecorders
from server.conversations.running import count_running, recorders_of_all
from server.conversations.tables import Conversation, Message

AGAIN_SECONDS = 0.1
TRIES_MAX = 100
NAMED_MAX = 20
MESSAGES_AT_ONCE = 500


async def erase_texts(
    db: Database, redis: RedisClient, settings: Settings, tenant: str, user: str | None
) -> tuple[int, int]:
    """Delete the prompts and answers of a user (an id), or all of a tenant (None), in SQL and in Redis.
    Returns the number of conversations, and of messages in other owners' conversations. Of one who is closed,
    nothing is written afterwards.

    Raises Refused, and deletes nothing, where an answer still runs. Raises it where some texts stay: deleted
    ones are gone, and a repeated call deletes the rest.
    """
    recorders = await recorders_of_all(db, redis, settings)
    await wait_for_writers(db, tenant)
    if running := await count_running(db, recorders, tenant, user):
        raise bad_request(
            f"{running} requests of theirs are not over yet: close with --cancel, then try again"
        )
    conversations, broken = await _erase_conversations(db, recorders, tenant, user)
    messages = 0
    if user is not None:
        messages, stay = await _erase_messages_of(db, recorders, tenant, user)
        broken |= stay
    broken |= await _forget_asked(db, recorders, tenant, user)
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
            "system": row.system,
            "deleted": row.deleted_ms is not None,
        }
        yield facts | {"messages": await _messages(db, tenant, of_it)}
    after = ""
    while others := await _others(db, tenant, user, after):
        which = (col(Message.user_id) == user) & col(Message.conversation_id).in_(others)
        yield {"kind": "messages", "messages": await _messages(db, tenant, which)}
        after = others[-1]


async def _others(db: Database, tenant: str, user: str, after: str) -> Sequence[str]:
    """The next conversations, by id, that others own and in which this user has messages."""
    own = select(Conversation.id).where(*_owned(tenant, user))
    found = select(Message.conversation_id).where(
        col(Message.tenant_id) == tenant,
        col(Message.user_id) == user,
        col(Message.conversation_id) > after,
        col(Message.conversation_id).not_in(own),
    )
    found = found.distinct().order_by(col(Message.conversation_id)).limit(CONVERSATIONS_AT_ONCE)
    async with db.session() as session:
        return (await session.exec(found)).all()


async def _forget_asked(db: Database, recorders: PoolRecorders, tenant: str, user: str | None) -> set[str]:
    """Have the pools forget what the books have of them: a request in no conversation has no row. Returns
    those that stay in Redis."""
    broken = set[str]()
    oldest_ms = now_ms() - recorders.known_ms
    async for page in requests_of(db, tenant, user):
        recent = [each.request_id for each in page if each.accepted_ms > oldest_ms]
        broken |= await _forget(recorders, tenant, recent)
    async for event in held_events_of(db, tenant, user):
        if event.accepted_ms > oldest_ms:
            broken |= await _forget(recorders, tenant, [event.request])
    return broken


async def _forget(recorders: PoolRecorders, tenant: str, requests: Iterable[str]) -> set[str]:
    """Have the pools forget these requests; return those that stay."""
    return {each for each in requests if not await forget_answer(recorders, tenant, each)}


async def _messages(db: Database, tenant: str, which: ColumnElement[bool]) -> list[dict[str, Any]]:
    statement = select(Message).where(col(Message.tenant_id) == tenant, which)
    async with db.session() as session:
        rows = (
            await session.exec(statement.order_by(col(Message.conversation_id), col(Message.position)))
        ).all()
    names = {"conversation_id", "role", "content", "flags", "safety", "request_id", "model", "created_ms"}
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
    """Some conversations that are left, hidden from now on."""
    owned = _owned(tenant, user)
    async with db.transaction() as session:
        hidden = update(Conversation).where(*owned, col(Conversation.deleted_ms).is_(None))
        await session.exec(hidden.values(deleted_ms=now_ms()))
        some = select(Conversation.tenant_id, Conversation.id).where(*owned).limit(CONVERSATIONS_AT_ONCE)
        return [(owner, id) for owner, id in (await session.exec(some)).all()]


async def _erase_messages_of(
    db: Database, recorders: PoolRecorders, tenant: str, user: str
) -> tuple[int, set[str]]:
    """Erase a user's messages in others' conversations, first from Redis. Returns their number, and the
    requests that stay in Redis."""
    gone, broken = 0, set[str]()
    oldest_ms = now_ms() - recorders.known_ms
    while made_ms := await _sent_by(db, tenant, user):
        recent = [id for id, made in made_ms.items() if made > oldest_ms]
        broken |= await _forget(recorders, tenant, recent)
        gone += await _erase_messages(db, tenant, list(made_ms))
    return gone, broken


async def _sent_by(db: Database, tenant: str, user: str) -> dict[str, int]:
    """Some requests whose messages are a user's, with the time of each in Unix ms."""
    of_user = (col(Message.tenant_id) == tenant, col(Message.user_id) == user)
    some = select(Message.request_id, Message.created_ms).where(*of_user).limit(MESSAGES_AT_ONCE)
    async with db.session() as session:
        return dict((await session.exec(some)).all())


async def _erase_messages(db: Database, tenant: str, requests: Sequence[str]) -> int:
    """Erase messages of conversations that a service key keeps for several people, with titles and system
    prompts: a title is somebody's first words, and a system prompt may tell of somebody."""
    theirs = (col(Message.tenant_id) == tenant, col(Message.request_id).in_(requests))
    async with db.erasing() as session:
        touched = (await session.exec(select(Message.conversation_id).where(*theirs).distinct())).all()
        which = (col(Conversation.tenant_id) == tenant, col(Conversation.id).in_(touched))
        locked = select(Conversation.id).where(*which).order_by(col(Conversation.id)).with_for_update()
        await session.exec(locked)  # whoever adds a turn there locks its row too
        done = await session.exec(delete(Message).where(*theirs))
        if touched:
            await session.exec(update(Conversation).where(*which).values(title="", system=""))
            left = select(Message.conversation_id).where(
                col(Message.tenant_id) == tenant, col(Message.conversation_id).in_(touched)
            )
            empty = set(touched) - set((await session.exec(left.distinct())).all())
            gone = (col(Conversation.tenant_id) == tenant, col(Conversation.id).in_(empty))
            await session.exec(delete(Conversation).where(*gone))
        return done.rowcount
