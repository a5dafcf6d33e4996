"""Browsers in which people are signed in: opening, reading, listing and ending their sessions.

A token is shown by its cookie and stored nowhere; each call reads session, membership and person again.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, tuple_, update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import lock_chain, record
from billing.tables.people import Membership, Person, PersonSession
from billing.tables.tenants import PLATFORM, Tenant
from core.actor import Author
from core.clock import now_ms
from core.ids import uuid7
from core.sql.batches import batch
from core.sql.database import Database

PERSON_SESSION_SECONDS = 12 * 3600
TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 100
AGENT_CHARACTERS_MAX = 200
SEEN_EVERY_MS = 60_000
PERSON_SESSIONS_MAX = 20  # of one person in one tenant; the longest unseen one ends for a new one
KEPT_MS = 30 * 86_400_000  # ended sessions stay to be looked at
LISTED_MAX = 1_000
CLEARED_AT_ONCE = 500


@dataclass(frozen=True)
class SignedInPerson:
    """An open session, whose it is, and the membership in which it acts."""

    person: Person
    membership: Membership
    session: PersonSession


@dataclass(frozen=True, repr=False)
class NewPersonSession:
    """A session that was just opened. `token`: for its cookie, stored nowhere."""

    signed_in: SignedInPerson
    token: str


def author_of(person: Person, tenant_id: str) -> Author:
    """Who the audit log names: staff by their name, tenants' members by an id, as their names can be
    erased."""
    return Author(person.name if tenant_id == PLATFORM else person.id, "api")


async def open_person_session(
    session: AsyncSession,
    person: Person,
    membership: Membership,
    address: str,
    agent: str,
    second_factor_ms: int | None = None,
) -> NewPersonSession:
    """Open a session in the caller's transaction, and record it."""
    now, token = now_ms(), secrets.token_urlsafe(TOKEN_BYTES)
    row = PersonSession(
        tenant_id=membership.tenant_id,
        id=uuid7(now),
        token_sha256=digest_of(token),
        person_id=person.id,
        address=address,
        agent="".join(each for each in agent if each.isprintable())[:AGENT_CHARACTERS_MAX],
        made_ms=now,
        seen_ms=now,
        ends_ms=now + PERSON_SESSION_SECONDS * 1000,
        second_factor_ms=second_factor_ms,
    )
    await _make_room(session, row, now)
    session.add(row)
    facts = {"person": person.id, "ends_ms": row.ends_ms}
    author = author_of(person, membership.tenant_id)
    await record(session, membership.tenant_id, "session.open", row.id, None, facts, author)
    return NewPersonSession(SignedInPerson(person, membership, row), token)


async def find_person_session(db: Database, token: str) -> SignedInPerson | None:
    """Who shows this token; None where it is nobody's, or its session, membership, person or tenant ended."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        return None
    statement = _open(now_ms()).where(col(PersonSession.token_sha256) == digest_of(token))
    async with db.session() as session:
        row = (await session.exec(statement)).first()
    if row is None:
        return None
    await _seen(db, row[0])
    return SignedInPerson(row[2], row[1], row[0])


async def list_person_sessions(
    db: Database, tenant_id: str, person_id: str | None = None
) -> Sequence[PersonSession]:
    """Open sessions of a tenant's members (PLATFORM: of the staff), newest first; or one member's."""
    statement = select(PersonSession).where(
        col(PersonSession.tenant_id) == tenant_id,
        col(PersonSession.ends_ms) > now_ms(),
        col(PersonSession.ended_ms).is_(None),
    )
    if person_id is not None:
        statement = statement.where(col(PersonSession.person_id) == person_id)
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(PersonSession.id).desc()).limit(LISTED_MAX))).all()


async def end_person_session(
    db: Database, tenant_id: str, session_id: str, person_id: str | None = None, author: Author | None = None
) -> PersonSession | None:
    """End one session; None where there is no such open one (of this person). `author`: who did, where it is
    not this task's."""
    statement = (
        select(PersonSession)
        .where(
            col(PersonSession.tenant_id) == tenant_id,
            col(PersonSession.id) == session_id,
            col(PersonSession.ended_ms).is_(None),
        )
        .with_for_update()
    )
    if person_id is not None:
        statement = statement.where(col(PersonSession.person_id) == person_id)
    async with db.transaction() as session:
        await lock_chain(session, tenant_id)
        row = (await session.exec(statement)).first()
        if row is None:
            return None
        row.ended_ms = now_ms()
        session.add(row)
        await record(session, tenant_id, "session.end", row.id, {"person": row.person_id}, None, author)
    return row


async def end_sessions_of(session: AsyncSession, tenant_id: str, person_id: str, now: int) -> int:
    """End all sessions in which a person acts in a tenant, in the caller's transaction, which records why.
    Returns how many."""
    ended = update(PersonSession).where(
        col(PersonSession.tenant_id) == tenant_id,
        col(PersonSession.person_id) == person_id,
        col(PersonSession.ended_ms).is_(None),
    )
    return (await session.exec(ended.values(ended_ms=now))).rowcount


async def clear_person_sessions(
    db: Database, now: int, most: int = CLEARED_AT_ONCE, staff: bool = True
) -> int:
    """Delete some sessions that ended KEPT_MS ago, of people who come no more; return how many.
    `staff` False: none of the platform's."""
    key = (col(PersonSession.tenant_id), col(PersonSession.id))
    old = select(*key).where(col(PersonSession.ends_ms) <= now - KEPT_MS).limit(most)
    if not staff:
        old = old.where(col(PersonSession.tenant_id) != PLATFORM)
    async with db.transaction() as session:
        some = delete(PersonSession).where(tuple_(*key).in_(batch(old)))
        return (await session.exec(some)).rowcount


def digest_of(token: str) -> str:
    """What is stored of a token, by which it is found: as long as tokens are random, the time that takes
    tells nothing of them. Pure."""
    return hashlib.sha256(token.encode()).hexdigest()


def _open(now: int):
    """Select open sessions with membership and person, of tenants that are open."""
    return (
        select(PersonSession, Membership, Person)
        .join(
            Membership,
            (col(Membership.tenant_id) == col(PersonSession.tenant_id))
            & (col(Membership.person_id) == col(PersonSession.person_id)),
        )
        .join(Person, col(Person.id) == col(PersonSession.person_id))
        .join(Tenant, col(Tenant.tenant_id) == col(PersonSession.tenant_id), isouter=True)
        .where(
            col(PersonSession.ended_ms).is_(None),
            col(PersonSession.ends_ms) > now,
            col(Membership.ended_ms).is_(None),
            col(Person.closed_ms).is_(None),
            col(Tenant.closed_ms).is_(None),
        )
    )


async def _make_room(session: AsyncSession, row: PersonSession, now: int) -> None:
    """Delete what ended long ago, and end the longest unseen sessions beyond the most that one may have."""
    own = (col(PersonSession.tenant_id) == row.tenant_id, col(PersonSession.person_id) == row.person_id)
    await session.exec(delete(PersonSession).where(*own, col(PersonSession.ends_ms) <= now - KEPT_MS))
    still = select(PersonSession).where(*own, col(PersonSession.ended_ms).is_(None))
    oldest = still.where(col(PersonSession.ends_ms) > now).order_by(col(PersonSession.seen_ms).desc())
    for each in (await session.exec(oldest.offset(PERSON_SESSIONS_MAX - 1))).all():
        each.ended_ms = now
        session.add(each)


async def _seen(db: Database, row: PersonSession) -> None:
    """Store that a session is in use, at most once a minute."""
    now = now_ms()
    if now - row.seen_ms < SEEN_EVERY_MS:
        return
    noted = update(PersonSession).where(
        col(PersonSession.tenant_id) == row.tenant_id, col(PersonSession.id) == row.id
    )
    async with db.transaction() as session:
        await session.exec(noted.values(seen_ms=now))
