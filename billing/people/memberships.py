"""Memberships: which role a person has in a tenant, or among the platform's staff.

A tenant that has members always has an admin, and the platform an owner: the last one can be neither demoted
nor removed nor closed.
"""

from typing import Any

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import lock_chain, record
from billing.people.person_sessions import end_sessions_of
from billing.people.staff_names import check_staff_name
from billing.tables.people import Membership, Person
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request, see, unknown
from core.operations import MEMBERS, STAFF, Role, Roles
from core.sql.database import Database
from core.sql.selects import untyped

PEOPLE_MAX: int = Settings.model_fields["people_per_tenant_max"].default


def roles_of(tenant_id: str) -> Roles:
    """Roles that there are in a tenant, or on the platform. Pure."""
    return STAFF if tenant_id == PLATFORM else MEMBERS


def keeper_of(tenant_id: str) -> Role:
    """The role of which one is always left. Pure."""
    return Role.OWNER if tenant_id == PLATFORM else Role.ADMIN


def checked_role(tenant_id: str, role: str) -> Role:
    """The role of this name, where it is one there. Raises Refused. Pure."""
    for each in roles_of(tenant_id):
        if each == role:
            return each
    of = "the platform's staff" if tenant_id == PLATFORM else "a tenant's members"
    raise bad_request(f"roles of {of} are {', '.join(sorted(roles_of(tenant_id)))}", field="role")


async def lock_people(session: AsyncSession, *tenants: str) -> None:
    """Lock the memberships of these until the transaction ends: settings first, then the audit log's chains,
    each in the order of ids. What runs in a session locks its person's rows last (actors.py), so nobody waits
    in a circle."""
    for each in sorted(tenants):
        await lock_settings(session, each)
    for each in sorted(tenants):
        await lock_chain(session, each)


async def join(
    session: AsyncSession, tenant_id: str, person_id: str, role: str, people_max: int = PEOPLE_MAX
) -> Membership:
    """Make a person a member, in the caller's transaction, which holds `lock_people`. Raises Refused where
    they are one already, or there are `people_max`; or the staff has their name."""
    role = checked_role(tenant_id, role)
    now = now_ms()
    if tenant_id == PLATFORM:
        await check_staff_name(session, person_id)
    row = await session.get(Membership, (tenant_id, person_id), with_for_update=True)
    if row is not None and row.ended_ms is None:
        raise bad_request("they are a member already", see=see("people.list"))
    many = select(func.count()).where(
        col(Membership.tenant_id) == tenant_id, col(Membership.ended_ms).is_(None)
    )
    if (await session.exec(many)).one() >= people_max:
        raise bad_request(
            f"there are {people_max} members (PARLEY_PEOPLE_PER_TENANT_MAX): close some",
            see=see("people.list"),
        )
    before = row.model_dump() if row is not None else None
    if row is None:
        row = Membership(tenant_id=tenant_id, person_id=person_id, role=role, created_ms=now)
    row.role, row.ended_ms = role, None
    session.add(row)
    await record(session, tenant_id, "membership.begin", person_id, before, row)
    return row


async def set_role(db: Database, tenant_id: str, person_id: str, role: str) -> Membership:
    """Give a member another role. Their sessions there end. Raises Refused where they are no member, or the
    last who may manage people."""
    role = checked_role(tenant_id, role)
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        row = await _open_membership(session, tenant_id, person_id)
        if row.role != role:
            await check_not_last(session, row)
            before = row.model_dump()
            row.role = role
            session.add(row)
            ended = await end_sessions_of(session, tenant_id, person_id, now_ms())
            after = {**row.model_dump(), "sessions_ended": ended}
            await record(session, tenant_id, "membership.set", person_id, before, after)
    return row


async def end_membership(db: Database, tenant_id: str, person_id: str) -> Membership:
    """Remove a member, and end their sessions there. Raises Refused as `set_role`."""
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        row = await _open_membership(session, tenant_id, person_id)
        await check_not_last(session, row)
        before, now = row.model_dump(), now_ms()
        row.ended_ms = now
        session.add(row)
        ended = await end_sessions_of(session, tenant_id, person_id, now)
        after = {**row.model_dump(), "sessions_ended": ended}
        await record(session, tenant_id, "membership.end", person_id, before, after)
    return row


async def resume_membership(
    db: Database, tenant_id: str, person_id: str, people_max: int = PEOPLE_MAX
) -> Membership:
    """Let a former member in again, with the role that they had. Raises Refused where they were none."""
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        row = await session.get(Membership, (tenant_id, person_id))
        if row is None:
            raise no_member(person_id)
        if row.ended_ms is None:
            return row
        return await join(session, tenant_id, person_id, row.role, people_max)


async def check_not_last(session: AsyncSession, row: Membership) -> None:
    """Raise Refused where nobody but this member could manage people. The caller holds `lock_people`."""
    keeper = keeper_of(row.tenant_id)
    if row.role != keeper:
        return
    others = (
        select(func.count())
        .select_from(Membership)
        .join(Person, col(Person.id) == col(Membership.person_id))
        .where(
            col(Membership.tenant_id) == row.tenant_id,
            col(Membership.role) == keeper,
            col(Membership.ended_ms).is_(None),
            col(Membership.person_id) != row.person_id,
            col(Person.closed_ms).is_(None),
        )
    )
    if not (await session.exec(others)).one():
        raise bad_request(
            f"they are the last {keeper}: make somebody else {keeper} first",
            field="person",
        )


async def is_gone(session: AsyncSession, tenant_id: str, person_id: str, held: bool = False) -> bool:
    """True where a person is closed, or neither member of a tenant nor staff any more. `held`: nobody changes
    that before the transaction ends."""
    there = col(Membership.tenant_id).in_([tenant_id, PLATFORM])
    return await _is_none(session, person_id, there, held)


async def manages_no_more(session: AsyncSession, tenant_id: str, person_id: str, held: bool = False) -> bool:
    """True where the maker of a token or an invitation could make it no more: they are closed, or neither own
    the platform nor manage this tenant's people. `held` as in `is_gone`."""
    owns = (col(Membership.tenant_id) == PLATFORM) & (col(Membership.role) == keeper_of(PLATFORM))
    manages = (col(Membership.tenant_id) == tenant_id) & (col(Membership.role) == keeper_of(tenant_id))
    return await _is_none(session, person_id, owns | manages, held)


async def _is_none(session: AsyncSession, person_id: str, of: Any, held: bool) -> bool:
    person: Any = select(Person.id).where(col(Person.id) == person_id, col(Person.closed_ms).is_(None))
    member: Any = select(Membership.person_id).where(
        of, col(Membership.person_id) == person_id, col(Membership.ended_ms).is_(None)
    )
    if held:
        person, member = person.with_for_update(read=True), member.with_for_update(read=True)
    found = [(await untyped(session).exec(each)).first() for each in (person, member)]
    return None in found


def no_member(named: str) -> Exception:
    """The Refused for somebody who is not there, or is another's. Pure."""
    return unknown(f"there is nobody {named!r}", field="person", see=see("people.list"))


async def _open_membership(session: AsyncSession, tenant_id: str, person_id: str) -> Membership:
    row = await session.get(Membership, (tenant_id, person_id), with_for_update=True)
    if row is None or row.ended_ms is not None:
        raise no_member(person_id)
    return row
