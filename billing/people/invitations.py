"""Invitations: a link by which somebody becomes a member, once. Of its code only the SHA-256 is kept."""

import secrets

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.audit.log import record
from billing.people.memberships import checked_role, join, lock_people, manages_no_more
from billing.people.person_sessions import NewPersonSession, digest_of, open_person_session
from billing.people.persons import add_person, checked_email, email_taken, person_of_email
from billing.people.refusals import LINK_IS_SPENT, unauthorized
from billing.tables.people import Invitation, Membership, Person
from billing.tables.tenants import PLATFORM, Tenant
from core.actor import Author, acting_as
from core.clock import now_ms
from core.errors import Refusal, Refused, bad_request, see, see_help, unknown
from core.ids import uuid7
from core.sql.database import Database

CODE_BYTES = 24
CODE_CHARACTERS_MAX = 100
DAYS = 7
DAY_MS = 86_400_000
OPEN_MAX = 100  # that wait, in one tenant
A_DAY_MAX, OF_ADDRESS_A_DAY_MAX = 200, 5  # each may be a mail to somebody who asked for none
SIGN_IN_FIRST = (
    "you have an account already: show its password with the invitation, or sign in with it and open the "
    "invitation again"
)
ALREADY = (
    "they are a member already: they sign in by their password, or by a sign-in link, which is made for them "
    "beside their name among the members"
)


async def invite(db: Database, tenant_id: str, email: str, role: str, by: str = "") -> tuple[Invitation, str]:
    """Invite an address; return the invitation and its code, which is stored nowhere. An earlier invitation
    of the same address is good no more. Raises Refused where a fact is invalid, or they are a member."""
    email, role, now = checked_email(email), checked_role(tenant_id, role), now_ms()
    code = secrets.token_urlsafe(CODE_BYTES)
    row = Invitation(
        tenant_id=tenant_id,
        id=uuid7(now),
        code_sha256=digest_of(code),
        email=email,
        role=role,
        by=by,
        created_ms=now,
        expires_ms=now + DAYS * DAY_MS,
    )
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        await _check_no_member(session, tenant_id, email)
        await _check_rate(session, tenant_id, email, now)
        others = (await session.exec(waiting(tenant_id, now))).all()
        if len(others) >= OPEN_MAX:
            raise bad_request(f"{OPEN_MAX} invitations wait: they end after {DAYS} days")
        for earlier in others:
            if earlier.email == email:
                earlier.revoked_ms = now
                session.add(earlier)
        session.add(row)
        await record(session, tenant_id, "invitation.create", row.id, None, recorded_of(row))
    return row, code


async def withdraw_invitation(db: Database, tenant_id: str, named: str) -> Invitation:
    """Let an invitation's link, named by its id or address, be good no more. Raises Refused where none
    waits."""
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        others = (await session.exec(waiting(tenant_id, now_ms()))).all()
        row = next((each for each in others if named.strip().casefold() in (each.id, each.email)), None)
        if row is None:
            raise unknown(f"no invitation {named!r} waits", field="invitation", see=see("people.invitations"))
        before = recorded_of(row)
        row.revoked_ms = now_ms()
        session.add(row)
        await record(session, tenant_id, "invitation.withdraw", row.id, before, recorded_of(row))
    return row


async def find_invitation(db: Database, code: str) -> Invitation | None:
    """The invitation of a code, good or not; None: there is none."""
    statement = select(Invitation).where(col(Invitation.code_sha256) == digest_of(code[:CODE_CHARACTERS_MAX]))
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def accept_invitation(
    db: Database,
    code: str,
    name: str,
    address: str,
    agent: str,
    signed_in: str | None = None,
) -> NewPersonSession:
    """Become a member by an invitation's code, which this uses up, and sign in. `signed_in`: the person who
    is, since whoever has this address already has to be. Raises Refused (unauthorized) for a code that is
    wrong, late or used, or whose tenant is closed: nobody learns which."""
    found = await find_invitation(db, code)
    if found is None:
        raise unauthorized(LINK_IS_SPENT)
    tenant_id, author = found.tenant_id, Author(f"invitation {found.id}", "api")
    try:
        with acting_as(author):
            async with db.transaction() as session:
                await lock_people(session, *{PLATFORM, tenant_id})
                row = await _good_invitation(session, tenant_id, found.id)
                person = await _person_for(session, row, name, signed_in)
                membership = await join(session, tenant_id, person.id, row.role)
                before = recorded_of(row)
                row.used_ms = now_ms()
                session.add(row)
                await record(session, tenant_id, "invitation.use", row.id, before, recorded_of(row))
                return await open_person_session(session, person, membership, address, agent)
    except IntegrityError as error:
        raise email_taken() from error


def recorded_of(row: Invitation) -> dict[str, object]:
    """What the audit log has of an invitation. Pure."""
    return row.model_dump(exclude={"email", "code_sha256"})


async def _good_invitation(session: AsyncSession, tenant_id: str, invitation_id: str) -> Invitation:
    row = await session.get(Invitation, (tenant_id, invitation_id), with_for_update=True)
    tenant = None if tenant_id == PLATFORM else await session.get(Tenant, tenant_id)
    closed = tenant is not None and tenant.closed_ms is not None
    if row is None or closed or row.used_ms or row.revoked_ms or row.expires_ms <= now_ms():
        raise unauthorized(LINK_IS_SPENT)
    if row.by and await manages_no_more(session, tenant_id, row.by):
        raise unauthorized(LINK_IS_SPENT)
    return row


async def _person_for(session: AsyncSession, row: Invitation, name: str, signed_in: str | None) -> Person:
    """The person of the invited address: a new one, or the one who is signed in."""
    person = await person_of_email(session, row.email)
    if person is None:
        return await add_person(session, name, row.email)
    if person.closed_ms is not None:
        raise unauthorized(LINK_IS_SPENT)
    if signed_in != person.id:
        raise bad_request(SIGN_IN_FIRST, field="password")
    return person


async def _check_no_member(session: AsyncSession, tenant_id: str, email: str) -> None:
    person = await person_of_email(session, email)
    row = await session.get(Membership, (tenant_id, person.id)) if person is not None else None
    if row is None or person is None or row.ended_ms is not None:
        return
    if person.closed_ms is not None:
        raise bad_request("they are a member, and closed", field="email", see=see_help("people.reopen"))
    raise bad_request(ALREADY, field="email", see=see_help("people.link"))


async def _check_rate(session: AsyncSession, tenant_id: str, email: str, now: int) -> None:
    """Raise Refused where a tenant, or one address by it, was invited too often of late."""
    lately = (col(Invitation.tenant_id) == tenant_id, col(Invitation.created_ms) > now - DAY_MS)
    rows = select(func.count()).select_from(Invitation).where(*lately)
    to_address = (await session.exec(rows.where(col(Invitation.email) == email))).one()
    if to_address >= OF_ADDRESS_A_DAY_MAX or (await session.exec(rows)).one() >= A_DAY_MAX:
        told = f"{OF_ADDRESS_A_DAY_MAX} times a day an address is invited, and {A_DAY_MAX} are: wait a day"
        raise Refused(Refusal("rate_limited", told, field="email", see=see("people.invitations")))


def waiting(tenant_id: str, now: int) -> SelectOfScalar[Invitation]:
    """Select a tenant's invitations that can be used now. Pure."""
    return select(Invitation).where(
        col(Invitation.tenant_id) == tenant_id,
        col(Invitation.used_ms).is_(None),
        col(Invitation.revoked_ms).is_(None),
        col(Invitation.expires_ms) > now,
    )
