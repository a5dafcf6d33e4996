"""Deletes hidden conversations for good: their rows, and what Redis still holds of their answers; and
browsers' sessions whose time is over.

Every gateway does it, in small batches; two of them at once only share the work. A hidden conversation can be
read by nobody; from then on it lasts `deleted_keep_seconds` at most, and a round of this.
"""

import asyncio
from collections.abc import Sequence

from sqlalchemy import delete
from sqlmodel import col, select

from billing.api import clear_sessions
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.runtime.failed_rounds import is_store_down, logged_failures
from core.sql.database import Database
from core.sql.write_ahead_log import empty_log
from server.conversations.recorder import PoolRecorders
from server.conversations.tables import Conversation, Message

ROUND_SECONDS = 30.0
CONVERSATIONS_AT_ONCE = 20
SKIPPED_MAX = 1_000

log = logger(__name__)

Id = tuple[str, str]  # tenant, conversation


class Purge:
    """One gateway's purge."""

    def __init__(self, db: Database, recorders: PoolRecorders, settings: Settings) -> None:
        self._db = db
        self._recorders = recorders
        self._settings = settings
        self._skipped = set[str]()
        self._logged = True  # in SQLite's log there may be what was deleted, also by commands before

    async def run(self) -> None:
        """Purge for ever; a failure is logged and tried again in the next round."""
        while True:
            await self.round()
            await asyncio.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Delete all that is due. While a reader holds up SQLite's log, each round tries to empty it."""
        for step in (self.step, self.clear_sessions):
            with logged_failures(log, "purge.run_failed", step=step.__name__):
                while await step(now_ms()):
                    self._logged = True
        with logged_failures(log, "purge.run_failed", step="empty_log"):
            self._logged = self._logged and not await empty_log(self._db)

    async def clear_sessions(self, now: int) -> int:
        """Delete some sessions that have ended by themselves, with the users that were made for them."""
        return await clear_sessions(self._db, now)

    async def step(self, now: int) -> int:
        """Delete some conversations that were hidden long enough, the oldest first. Returns their number."""
        before_ms = now - self._settings.deleted_keep_seconds * 1000
        async with self._db.session() as session:
            statement = (
                select(Conversation.tenant_id, Conversation.id)
                .where(col(Conversation.deleted_ms) <= before_ms, col(Conversation.id).not_in(self._skipped))
                .order_by(col(Conversation.deleted_ms))
                .limit(CONVERSATIONS_AT_ONCE)
            )
            found = [(tenant, id) for tenant, id in (await session.exec(statement)).all()]
        forgotten = [each for each in found if await self._forget(*each)]
        return await _delete(self._db, forgotten) + len(found) - len(forgotten)

    async def _forget(self, tenant: str, conversation: str) -> bool:
        """False where its keys in Redis are damaged. It stays until a gateway starts anew, and the others go;
        above a number of such conversations its rows are deleted all the same."""
        try:
            await _forget(self._db, self._recorders, tenant, conversation)
        except Exception as error:
            if is_store_down(error):
                raise
            log.error("purge.delete_failed", tenant=tenant, conversation=conversation, **error_facts(error))
            self._skipped.add(conversation)
            return len(self._skipped) > SKIPPED_MAX
        return True


async def purge(db: Database, recorders: PoolRecorders, conversations: Sequence[Id]) -> tuple[int, set[str]]:
    """Delete these hidden conversations, first from Redis. Returns the number of them that were still there,
    and the requests that stay in Redis because their keys are damaged."""
    broken = set[str]()
    for tenant, conversation in conversations:
        for request in await _answers(db, recorders, tenant, conversation):
            if not await forget_answer(recorders, tenant, request):
                broken.add(request)
    return await _delete(db, conversations), broken


async def forget_answer(recorders: PoolRecorders, tenant: str, request: str) -> bool:
    """Have the pools forget a request's answer. False: its keys are damaged, which is logged."""
    try:
        await recorders.forget(tenant, request)
    except Exception as error:
        if is_store_down(error):
            raise
        log.error("purge.forget_failed", tenant=tenant, request=request, **error_facts(error))
        return False
    return True


async def _delete(db: Database, conversations: Sequence[Id]) -> int:
    gone = 0
    async with db.erasing() as session:
        for tenant, conversation in conversations:
            mine = select(Conversation.id).where(
                col(Conversation.tenant_id) == tenant,
                col(Conversation.id) == conversation,
                col(Conversation.deleted_ms).is_not(None),
            )
            if (await session.exec(mine.with_for_update(skip_locked=True))).first() is None:
                continue  # another gateway has it
            of_it = (col(Message.tenant_id) == tenant, col(Message.conversation_id) == conversation)
            await session.exec(delete(Message).where(*of_it))
            row = (col(Conversation.tenant_id) == tenant, col(Conversation.id) == conversation)
            await session.exec(delete(Conversation).where(*row))
            gone += 1
    if gone:
        log.info("purge.finished", conversations=gone)
    return gone


async def _forget(db: Database, recorders: PoolRecorders, tenant: str, conversation: str) -> None:
    """Have the pools forget the conversation's answers. One that still runs is forgotten after its end."""
    for request in await _answers(db, recorders, tenant, conversation):
        await recorders.forget(tenant, request)


async def _answers(db: Database, recorders: PoolRecorders, tenant: str, conversation: str) -> Sequence[str]:
    """The conversation's requests that pools may still know."""
    statement = select(Message.request_id).where(
        col(Message.tenant_id) == tenant,
        col(Message.conversation_id) == conversation,
        col(Message.role) == "assistant",
        col(Message.created_ms) > now_ms() - recorders.known_ms,
    )
    async with db.session() as session:
        return (await session.exec(statement)).all()
