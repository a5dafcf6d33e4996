"""Finds a tenant's running requests by what SQL has of them: the rows of answers that are not stored yet.

Redis' own list of open requests may be lost, and a worker may write it. A request in no conversation has no
row and is found there alone.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from sqlalchemy import ColumnElement, literal_column
from sqlmodel import col, select

from billing.api import OwnerFilter, keys_of_requests, list_keys
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.redis.pools import announced_pools
from core.runtime.failed_rounds import is_store_down
from core.sql.database import Database
from core.sql.selects import select_columns, untyped
from server.conversations.recorder import PoolRecorders, RequestLocation
from server.conversations.store import ConversationStore
from server.conversations.tables import Conversation, Message, MessageStatus

ROWS_AT_ONCE = 500
IS_RUNNING = literal_column(f"'{MessageStatus.RUNNING.value}'")  # no parameter, so that its index is taken

log = logger(__name__)


class RunningRow(NamedTuple):
    """A request whose answer is not stored, with its sender's owner key. One runs in a conversation."""

    conversation: str
    request: str
    owner_key: str


async def recorders_of_all(db: Database, redis: RedisClient, settings: Settings) -> PoolRecorders:
    """The recorders of all announced pools, for a caller that is no gateway."""
    recorders = PoolRecorders(redis, settings, ConversationStore(db), "")
    for pool in await announced_pools(redis, settings):
        recorders.keep(pool)
    return recorders


async def running_requests(
    db: Database, redis: RedisClient, settings: Settings, whose: OwnerFilter
) -> list[tuple[str, str]]:
    """(id, pool) of each selected request that has a running row, is in a pool, and has not ended there. Of a
    rotated key and its successors, a request is the one's that the directory names, else any one's."""
    recorders = await recorders_of_all(db, redis, settings)
    owner_key, others = await _chain(db, whose)
    found: list[tuple[str, str]] = []
    async for page in _rows(db, recorders, whose):
        ids = [row.request for row in page if owner_key in ("", row.owner_key)]
        senders = await keys_of_requests(redis, whose.tenant, ids) if others else {}
        found += [
            (id, pool)
            for id in ids
            if senders.get(id) not in others and (pool := await _open_in(recorders, whose.tenant, id))
        ]
    return found


async def count_running(db: Database, recorders: PoolRecorders, tenant: str, user: str | None) -> int:
    """The number of requests of a user, or of all of a tenant (None), that run by their rows. One that no
    pool knows was lost, or is about to be put in line: from here on, every pool refuses it."""
    count = 0
    async for page in _rows(db, recorders, OwnerFilter(tenant, user=user or "")):
        unknown: list[str] = []
        for row in page:
            found = await _found(recorders, tenant, row.request)
            if found is None:
                unknown.append(row.request)
            elif not found.ended:
                count += 1
        count += len(unknown) - len(await recorders.refuse_late_enqueue(tenant, unknown))
    return count


async def _rows(
    db: Database, recorders: PoolRecorders, whose: OwnerFilter
) -> AsyncGenerator[list[RunningRow]]:
    """Pages of running rows. Not those older than any request can run: they were lost."""
    after = ""
    where = [*_running(whose), col(Message.created_ms) > now_ms() - recorders.runs_ms]
    facts = (col(Message.conversation_id), col(Message.request_id), col(Message.owner_key))
    wanted = select_columns(*facts).where(*where).order_by(col(Message.conversation_id))
    while True:
        page = wanted.where(col(Message.conversation_id) > after)
        async with db.session() as session:
            rows = [RunningRow(*row) for row in (await untyped(session).exec(page.limit(ROWS_AT_ONCE))).all()]
        if not rows:
            return
        yield rows
        after = rows[-1].conversation


def _running(whose: OwnerFilter) -> list[ColumnElement[bool]]:
    where = [
        col(Message.tenant_id) == whose.tenant,
        col(Message.status) == IS_RUNNING,
    ]
    if whose.user:
        where.append(col(Message.user_id) == whose.user)
    if whose.project:
        of_project = select(Conversation.id).where(
            col(Conversation.tenant_id) == whose.tenant, col(Conversation.project_id) == whose.project
        )
        where.append(col(Message.conversation_id).in_(of_project))
    return where


async def _chain(db: Database, whose: OwnerFilter) -> tuple[str, set[str]]:
    """The owner key of the selected key, and the other keys of its chain; nothing where none is selected."""
    if not whose.key:
        return "", set()
    keys = await list_keys(db, whose.tenant)
    owner_key = next((key.owner_key for key in keys if key.id == whose.key), whose.key)
    return owner_key, {key.id for key in keys if key.owner_key == owner_key} - {whose.key}


async def _open_in(recorders: PoolRecorders, tenant: str, request: str) -> str:
    """The pool in which a request is open; empty where it is in none or has ended."""
    found = await _found(recorders, tenant, request)
    return "" if found is None or found.ended else found.pool


async def _found(recorders: PoolRecorders, tenant: str, request: str) -> RequestLocation | None:
    """Where a request is. One whose keys are damaged counts as ended: nobody can go on with it."""
    try:
        return await recorders.find(tenant, request)
    except Exception as error:
        if is_store_down(error):
            raise
        log.error("running.find_failed", tenant=tenant, request=request, **error_facts(error))
        return RequestLocation("", ended=True)
