"""Erases the people of a tenant: names, addresses and passwords of those who belong to nobody else."""

from sqlalchemy import delete
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import lock_chain, record
from billing.tables.people import Invitation, Membership, Person, PersonSession, ServiceToken
from billing.tables.tenants import PLATFORM

ERASED = "(erased)"


async def erase_people(session: AsyncSession, tenant_id: str, now: int) -> int:
    """End all memberships, invitations, sessions and tokens of a closed tenant, in the transaction that
    erases it and records that next. Returns how many people nobody knows any more."""
    for chain in (PLATFORM, tenant_id):  # before rows of people, as billing/people does
        await lock_chain(session, chain)
    here = select(Membership.person_id).where(col(Membership.tenant_id) == tenant_id)
    elsewhere = select(Membership.person_id).where(col(Membership.tenant_id) != tenant_id)
    only_here = (col(Person.id).in_(here), col(Person.id).not_in(elsewhere))
    people = (await session.exec(select(Person).where(*only_here).with_for_update())).all()
    for person in people:
        person.name, person.email, person.closed_ms = ERASED, None, person.closed_ms or now
        person.password_hash = person.totp_hidden = person.totp_pending = None
        session.add(person)
    if people:
        await record(session, PLATFORM, "person.erase", tenant_id, None, {"people": len(people)})
    await _end_rows(session, tenant_id, now)
    return len(people)


async def _end_rows(session: AsyncSession, tenant_id: str, now: int) -> None:
    await session.exec(delete(PersonSession).where(col(PersonSession.tenant_id) == tenant_id))
    members = select(Membership).where(col(Membership.tenant_id) == tenant_id)
    for membership in (await session.exec(members)).all():
        membership.ended_ms = membership.ended_ms or now
        session.add(membership)
    invited = select(Invitation).where(col(Invitation.tenant_id) == tenant_id)
    for invitation in (await session.exec(invited)).all():
        invitation.email, invitation.revoked_ms = "", invitation.revoked_ms or now
        session.add(invitation)
    tokens = select(ServiceToken).where(col(ServiceToken.tenant_id) == tenant_id)
    for token in (await session.exec(tokens)).all():
        token.name, token.revoked_ms = "", token.revoked_ms or now
        session.add(token)
    await session.flush()
