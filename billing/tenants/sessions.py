"""Signed-in browsers, each as one user of a tenant.

A session is a row, which signing out deletes. Each call looks up its session and the session's key in one
statement.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey
from billing.tenants.key_rights import DEFAULT_SCOPES
from billing.tenants.keys import (
    Principal,
    grants,
    is_suspended_grant,
    principal_of_grant,
)
from billing.tenants.session_ends import end_oldest_sessions, own_sessions
from billing.tenants.users import add_user
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from core.sql.locks import lock_until_commit
from core.sql.selects import untyped

UNNAMED_USER = "browser-{session}"
TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 100
AGENT_CHARACTERS_MAX = 200
SEEN_EVERY_MS = 60_000
LISTED_MAX = 1_000


async def open_session(
    db: Database, principal: Principal, settings: Settings, address: str, agent: str
) -> tuple[BrowserSession, str, Sequence[str]]:
    """Sign a browser in, as the principal's user where it has one, else as a new user of its own. Returns the
    session, the token for its cookie (stored nowhere), and the sessions that ended to make room for it."""
    now = now_ms()
    ends_ms = now + settings.cookie_seconds * 1000
    if principal.access_ends_ms is not None:
        ends_ms = min(ends_ms, principal.access_ends_ms)
    row, token = _draft(principal.tenant, principal.key, principal.user, now, ends_ms, address, agent)
    most = (settings.sessions_per_user_max, settings.sessions_per_key_max)
    async with db.transaction() as session:
        await lock_until_commit(session, f"sessions {principal.tenant}")  # each counts the one before
        ended = await end_oldest_sessions(session, principal, *most, now)
        if not principal.user:
            name = UNNAMED_USER.format(session=row.id)
            user = await add_user(session, principal.tenant, name, now, settings.users_per_tenant_max)
            row.own_user, row.user_id = True, user.id
        await _add(session, row)
    return row, token, ended


async def principal_of_session(db: Database, token: str) -> Principal | None:
    """Return the principal of a browser's token; None where it signed out, or its key, user, project or
    tenant is no longer admitted."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        return None
    return await _principal(db, _BY_TOKEN, {"token": _digest(token)})


async def principal_of_session_id(db: Database, tenant_id: str, session_id: str) -> Principal | None:
    """Return the principal of a session, given its id; None as for `principal_of_session`."""
    return await _principal(db, _BY_ID, {"tenant": tenant_id, "session": session_id})


async def is_suspended_session(db: Database, tenant_id: str, session_id: str) -> bool:
    """True where only the closing of its tenant ends a session, given its id."""
    return await _is_suspended(db, _BY_ID, {"tenant": tenant_id, "session": session_id})


async def is_suspended_token(db: Database, token: str) -> bool:
    """True where only the closing of its tenant ends the session of a cookie's token."""
    return len(token) <= TOKEN_CHARACTERS_MAX and await _is_suspended(
        db, _BY_TOKEN, {"token": _digest(token)}
    )


async def sessions_of(db: Database, principal: Principal) -> Sequence[BrowserSession]:
    """A caller's own sessions, newest first: the user's in this project, or those signed in with the service
    key or another of its chain."""
    return await _listed(db, own_sessions(principal, now_ms()))


async def is_own_session(db: Database, principal: Principal, session_id: str) -> bool:
    """True where an open session is one of the caller's own."""
    statement = own_sessions(principal, now_ms()).where(col(BrowserSession.id) == session_id)
    return bool(await _listed(db, statement))


async def list_sessions(
    db: Database, tenant_id: str, session_id: str | None = None, user_id: str | None = None
) -> Sequence[BrowserSession]:
    """A tenant's sessions, newest first: all, one, or a user's. For operators."""
    statement = select(BrowserSession).where(
        col(BrowserSession.tenant_id) == tenant_id, col(BrowserSession.ends_ms) > now_ms()
    )
    if session_id is not None:
        statement = statement.where(col(BrowserSession.id) == session_id)
    if user_id is not None:
        statement = statement.where(col(BrowserSession.user_id) == user_id)
    return await _listed(db, statement)


_OF_KEY = (col(BrowserSession.tenant_id) == col(ApiKey.tenant_id)) & (
    col(BrowserSession.key_id) == col(ApiKey.id)
)
_SESSIONS = grants(col(BrowserSession.user_id), (BrowserSession, _OF_KEY)).add_columns(
    col(BrowserSession.id).label("session_id"),
    col(BrowserSession.user_id).label("session_user"),
    col(BrowserSession.ends_ms).label("session_ends_ms"),
    col(BrowserSession.seen_ms).label("session_seen_ms"),
)
_BY_TOKEN = _SESSIONS.where(col(BrowserSession.token_sha256) == bindparam("token"))
_BY_ID = _SESSIONS.where(
    (col(BrowserSession.tenant_id) == bindparam("tenant")) & (col(BrowserSession.id) == bindparam("session"))
)


async def _is_suspended(db: Database, statement: Any, facts: dict[str, str]) -> bool:
    async with db.reading() as connection:
        found = (await connection.execute(statement, facts)).first()
    return found is not None and found.session_ends_ms > now_ms() and is_suspended_grant(found)


async def _principal(db: Database, statement: Any, facts: dict[str, str]) -> Principal | None:
    async with db.reading() as connection:
        found = (await connection.execute(statement, facts)).first()
    if found is None or found.session_ends_ms <= now_ms():
        return None
    principal = principal_of_grant(found)
    if principal is None or (principal.fixed_user and principal.user != found.session_user):
        return None
    await _seen(db, principal.tenant, found.session_id, found.session_seen_ms)
    ends_ms = found.session_ends_ms
    if principal.access_ends_ms is not None:
        ends_ms = min(ends_ms, principal.access_ends_ms)
    return replace(
        principal,
        user=found.session_user,
        fixed_user=True,
        shared=False,
        scopes=principal.scopes.intersection(DEFAULT_SCOPES),
        access_ends_ms=ends_ms,
        session=found.session_id,
    )


async def _seen(db: Database, tenant_id: str, session_id: str, before_ms: int) -> None:
    """Store that a browser is in use, at most once a minute."""
    now = now_ms()
    if now - before_ms < SEEN_EVERY_MS:
        return
    noted = update(BrowserSession).where(
        col(BrowserSession.tenant_id) == tenant_id, col(BrowserSession.id) == session_id
    )
    async with db.transaction() as session:
        await session.exec(noted.values(seen_ms=now))


async def _listed(db: Database, statement: Any) -> Sequence[BrowserSession]:
    newest = (col(BrowserSession.made_ms).desc(), col(BrowserSession.id).desc())
    async with db.session() as session:
        return (await untyped(session).exec(statement.order_by(*newest).limit(LISTED_MAX))).all()


def _draft(
    tenant_id: str, key_id: str, user: str, now: int, ends_ms: int, address: str, agent: str
) -> tuple[BrowserSession, str]:
    id, token = uuid7(now), secrets.token_urlsafe(TOKEN_BYTES)
    row = BrowserSession(
        tenant_id=tenant_id,
        id=id,
        token_sha256=_digest(token),
        key_id=key_id,
        user_id=user,
        address=address,
        agent="".join(each for each in agent if each.isprintable())[:AGENT_CHARACTERS_MAX],
        made_ms=now,
        seen_ms=now,
        ends_ms=ends_ms,
    )
    return row, token


async def _add(session: AsyncSession, row: BrowserSession) -> None:
    """Add a session and record it in the audit log."""
    facts = {"user": row.user_id, "key": row.key_id, "ends_ms": row.ends_ms}
    session.add(row)
    await record(session, row.tenant_id, "session.open", row.id, None, facts, Author(row.user_id, "api"))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
