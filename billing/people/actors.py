"""Who performs an operation, of a person's session or of a service token; and whether they still may when
their change is about to be committed.

Rows are read again in the transaction that commits, and held until it has: person, membership, then session
or token, behind everything else (memberships.py, `lock_people`).
"""

from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.people.memberships import manages_no_more
from billing.people.person_sessions import SignedInPerson, author_of, find_person_session
from billing.people.refusals import unauthorized
from billing.people.service_tokens import find_token
from billing.tables.people import Membership, Person, PersonSession, ServiceToken
from billing.tables.tenants import PLATFORM, Tenant
from billing.unit_of_work.actors import OperationActor
from core.actor import Author
from core.clock import now_ms
from core.operations import Role
from core.sql.database import Database
from core.sql.selects import untyped

ENDED = "your session has ended: sign in again"
ROLE_CHANGED = "your role changed: sign in again"
TOKEN_ENDED = "your token has ended: make another one"


async def actor_of_cookie(db: Database, token: str, loopback: bool) -> OperationActor | None:
    """Who shows this token of a session; None where nobody does any more."""
    signed_in = await find_person_session(db, token)
    return None if signed_in is None else actor_of_session(signed_in, loopback)


def actor_of_session(signed_in: SignedInPerson, loopback: bool) -> OperationActor:
    """The person of a session, in the membership in which it acts. `loopback`: only this machine reaches the
    console, which then asks staff for no second factor."""
    tenant = signed_in.membership.tenant_id
    is_staff = tenant == PLATFORM
    shown = signed_in.session.second_factor_ms is not None

    async def still(session: AsyncSession) -> None:
        await _still_signed_in(session, signed_in)

    return OperationActor(
        author_of(signed_in.person, tenant),
        Role(signed_in.membership.role),
        tenant=None if is_staff else tenant,
        id=signed_in.person.id,
        session=signed_in.session.id,
        still=still,
        remote=True,
        second_factor=loopback or shown or not is_staff,
    )


async def actor_of_bearer(db: Database, secret: str) -> OperationActor | None:
    """The service token of a secret; None where it is nobody's, or ended."""
    token = await find_token(db, secret)
    if token is None:
        return None

    async def still(session: AsyncSession) -> None:
        await _still_good(session, token)

    return OperationActor(
        Author(f"token {token.name}" if token.tenant_id == PLATFORM else f"token {token.id}", "api"),
        Role(token.role),
        tenant=token.tenant_id or None,
        id=token.id,
        still=still,
        remote=True,
    )


async def _still_signed_in(session: AsyncSession, signed_in: SignedInPerson) -> None:
    tenant, person = signed_in.session.tenant_id, signed_in.session.person_id
    closed = await _held(session, select(Person.closed_ms).where(col(Person.id) == person))
    of_person = (col(Membership.tenant_id) == tenant, col(Membership.person_id) == person)
    role = await _held(session, select(Membership.role).where(*of_person, col(Membership.ended_ms).is_(None)))
    own = (col(PersonSession.tenant_id) == tenant, col(PersonSession.id) == signed_in.session.id)
    ended = await _held(session, select(PersonSession.ended_ms).where(*own))
    if closed != [None] or not role or await _is_closed(session, tenant):
        raise unauthorized(ENDED)
    if role != [signed_in.membership.role]:
        raise unauthorized(ROLE_CHANGED)
    if ended != [None] or signed_in.session.ends_ms <= now_ms():
        raise unauthorized(ENDED)


async def _still_good(session: AsyncSession, token: ServiceToken) -> None:
    own = (col(ServiceToken.tenant_id) == token.tenant_id, col(ServiceToken.id) == token.id)
    gone = token.by and await manages_no_more(session, token.tenant_id, token.by, held=True)
    revoked = await _held(session, select(ServiceToken.revoked_ms).where(*own))
    late = token.expires_ms <= now_ms()
    if gone or late or revoked != [None] or await _is_closed(session, token.tenant_id):
        raise unauthorized(TOKEN_ENDED)


async def _is_closed(session: AsyncSession, tenant_id: str) -> bool:
    """True for a closed tenant. Its row is not held: whoever closes it locks it before the audit log."""
    closed = select(Tenant.closed_ms).where(col(Tenant.tenant_id) == tenant_id)
    return (await session.exec(closed)).first() is not None


async def _held(session: AsyncSession, statement: Any) -> list[Any]:
    """Values of one column, whose rows nobody changes before the transaction ends."""
    return list((await untyped(session).exec(statement.with_for_update(read=True))).all())
