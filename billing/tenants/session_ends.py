"""Ends browsers' sessions: by sign-out, where a user or a key has too many, and by time.

A user that a sign-in made for one browser ends with it: deleted where nothing was done as them, else closed,
so that repeated sign-ins do not fill the tenant.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, update
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.periods import HOUR_MS
from billing.tables.ledger import RollupHour
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey, TenantUser
from billing.tenants.keys import Principal
from billing.tenants.tenancy import publish_news
from core.actor import Author
from core.clock import now_ms
from core.redis.client import RedisClient
from core.sql.database import Database
from core.sql.selects import untyped

SESSION_ENDED = "session_ended"
ENDED_AT_ONCE = 100


def own_sessions(principal: Principal, now: int) -> Any:
    """Select the open sessions of a caller: the user's in this project, or those signed in with the service
    key or another of its chain."""
    of_user = col(BrowserSession.user_id) == principal.user
    return _with_keys(now, principal.tenant).where(
        col(ApiKey.project_id) == principal.project,
        of_user if principal.fixed_user else _of_chain(principal.owner_key),
    )


async def end_oldest_sessions(
    session: AsyncSession, principal: Principal, user_max: int, key_max: int, now: int
) -> Sequence[str]:
    """End enough sessions to make room for one more of this user and of this key, in the caller's
    transaction; return their ids. Least recently seen go first. Of a key's sessions, those of users made for
    one browser go before them: a new sign-in with the key signs out nobody who came by a link while others
    are left."""
    least = (col(BrowserSession.seen_ms), col(BrowserSession.id))
    unnamed_first = (col(BrowserSession.own_user).desc(), *least)
    of_key = _with_keys(now, principal.tenant).where(_of_chain(principal.owner_key))
    rows: Sequence[BrowserSession] = []
    if principal.user:
        of_user = _with_keys(now, principal.tenant).where(
            col(ApiKey.project_id) == principal.project, col(BrowserSession.user_id) == principal.user
        )
        rows = await _surplus(session, of_user, least, user_max - 1)
    of_key = of_key.where(col(BrowserSession.id).not_in([row.id for row in rows]))
    rows = [*rows, *await _surplus(session, of_key, unnamed_first, key_max - 1)]
    rows.sort(key=lambda row: row.id)  # one order of locks, so that sign-ins cannot deadlock
    ended = [row for row in rows if await _take_away(session, row, now)]
    for row in ended:
        await _record_end(session, row, Author(principal.user or principal.key, "api"))
    return [row.id for row in ended]


async def end_session(
    db: Database, redis: RedisClient, tenant_id: str, session_id: str, author: Author | None = None
) -> bool:
    """Sign a browser out: first the row, then news for its open connections. False: there is no such session.
    `author`: the person responsible, where it is not this process's user."""
    async with db.erasing() as session:
        ended = await _end_all(session, tenant_id, [session_id], author)
    await tell_session_ends(db, redis, tenant_id, ended)
    return bool(ended)


async def write_session_ends(db: Database, tenant_id: str, sessions: Sequence[str]) -> Sequence[str]:
    """Sign browsers out; return the ids of those that were signed in. Telling gateways is left to
    `tell_session_ends`."""
    async with db.transaction() as session:
        return await _end_all(session, tenant_id, sessions, None)


async def tell_session_ends(_: Database, redis: RedisClient, tenant_id: str, sessions: Sequence[str]) -> None:
    """Tell gateways to close the open connections of a tenant's ended sessions."""
    await publish_session_end(redis, tenant_id, sessions)


async def publish_session_end(redis: RedisClient, tenant_id: str, sessions: Sequence[str]) -> None:
    """Tell gateways to close these sessions' open connections."""
    for session in sessions:
        await publish_news(redis, tenant_id, SESSION_ENDED, session)


async def clear_sessions(db: Database, now: int, most: int = ENDED_AT_ONCE) -> int:
    """Delete some expired sessions, earliest end first; return how many were read."""
    async with db.session() as session:
        by_time = select(BrowserSession).where(col(BrowserSession.ends_ms) <= now)
        rows = (await session.exec(by_time.order_by(col(BrowserSession.ends_ms)).limit(most))).all()
    if rows:
        async with db.erasing() as session:
            for row in sorted(rows, key=lambda row: row.id):  # the order of end_oldest_sessions
                await _take_away(session, row, now)
    return len(rows)


async def touch_session(db: Database, tenant_id: str, session_id: str) -> bool:
    """Mark a session as used before something is sent in it. False: it has ended."""
    noted = update(BrowserSession).where(
        col(BrowserSession.tenant_id) == tenant_id,
        col(BrowserSession.id) == session_id,
        col(BrowserSession.ends_ms) > now_ms(),
    )
    async with db.transaction() as session:
        return (await session.exec(noted.values(used=True))).rowcount > 0


async def _surplus(
    session: AsyncSession, found: Any, order: Sequence[Any], most: int
) -> Sequence[BrowserSession]:
    """Sessions beyond `most`, in the given order."""
    many = (await session.exec(select(func.count()).select_from(found.subquery()))).one() - most
    if many <= 0:
        return []
    return (await untyped(session).exec(found.order_by(*order).limit(min(many, ENDED_AT_ONCE)))).all()


async def _end_all(
    session: AsyncSession, tenant_id: str, sessions: Sequence[str], author: Author | None
) -> Sequence[str]:
    """Rows go in the order of ids and before any audit row: the order of locks of `end_oldest_sessions`."""
    found = [await session.get(BrowserSession, (tenant_id, each)) for each in sorted(sessions)]
    now = now_ms()
    ended = [row for row in found if row is not None and await _take_away(session, row, now)]
    for row in ended:
        await _record_end(session, row, author)
    return [row.id for row in ended]


async def _record_end(session: AsyncSession, row: BrowserSession, author: Author | None) -> None:
    facts = {"user": row.user_id, "key": row.key_id}
    await record(session, row.tenant_id, "session.end", row.id, facts, None, author)


async def _take_away(session: AsyncSession, row: BrowserSession, now: int) -> bool:
    """Delete a session's row, and end the user made for it. False: another process did. The user is locked
    before the session, as in erasure, to avoid deadlock."""
    user = None
    if row.own_user:
        user = await session.get(TenantUser, (row.tenant_id, row.user_id), with_for_update=True)
    gone = delete(BrowserSession).where(
        col(BrowserSession.tenant_id) == row.tenant_id, col(BrowserSession.id) == row.id
    )
    used = (await session.exec(gone.returning(col(BrowserSession.used)))).first()
    if used is None:
        return False
    if user is not None and user.closed_ms is None:
        await _end_user(session, user, bool(used[0]), now)
    return True


async def _end_user(session: AsyncSession, user: TenantUser, used: bool, now: int) -> None:
    """Delete or close a user made for one session, unless an operator gave them a key, a limit or another
    session."""
    of_scope = [
        exists().where(
            col(table.tenant_id) == user.tenant_id, col(table.scope) == "user", col(table.scope_id) == user.id
        )
        for table in (QuotaPolicy, Budget)
    ]
    if await _any(session, _has(ApiKey, user), _has(BrowserSession, user), *of_scope):
        return
    billed = _has(RollupHour, user, col(RollupHour.hour_ms) >= user.created_ms - HOUR_MS)
    if used or await _any(session, billed):
        user.closed_ms = now
    else:
        await session.delete(user)


async def _any(session: AsyncSession, *found: ColumnElement[bool]) -> bool:
    return any([(await session.exec(select(each))).one() for each in found])


def _has(table: Any, user: TenantUser, *also: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(col(table.tenant_id) == user.tenant_id, col(table.user_id) == user.id, *also)


def _with_keys(now: int, tenant_id: str) -> Any:
    return (
        select(BrowserSession)
        .join(
            ApiKey,
            (col(ApiKey.tenant_id) == col(BrowserSession.tenant_id))
            & (col(ApiKey.id) == col(BrowserSession.key_id)),
        )
        .where(col(BrowserSession.tenant_id) == tenant_id, col(BrowserSession.ends_ms) > now)
    )


def _of_chain(owner_key: str) -> ColumnElement[bool]:
    return (col(ApiKey.owner_key) == owner_key) | (col(ApiKey.id) == owner_key)
