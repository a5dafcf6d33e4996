"""Persons: making, finding, closing and reopening them. A name and an e-mail address stand in `person` alone;
the audit log has ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.alerts.addresses import checked_address
from billing.audit.log import record
from billing.people.memberships import PEOPLE_MAX, check_not_last, join, lock_people, no_member
from billing.people.person_sessions import end_sessions_of
from billing.tables.people import Membership, Person
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.errors import Refused, bad_request, see
from core.ids import uuid7
from core.names import checked_name, forms_of, same_name
from core.operations import Role
from core.sql.database import Database
from core.sql.selects import untyped

RECORDED = {"id", "language", "created_ms", "closed_ms"}


@dataclass(frozen=True)
class Member:
    """A person in one tenant, or among the staff."""

    person: Person
    membership: Membership


def checked_email(email: str) -> str:
    """An address as it is stored and compared. Raises Refused. Pure."""
    return checked_address(email.strip(), "email").casefold()


def recorded_of(person: Person) -> dict[str, Any]:
    """What the audit log has of a person: nothing by which one knows them. Pure."""
    return person.model_dump(include=RECORDED) | {
        "signs_in_by": "link" if person.password_hash is None else "link or pass phrase",
        "second_factor": person.totp_hidden is not None,
    }


async def create_member(
    db: Database, tenant_id: str, name: str, role: str, email: str | None = None, people_max: int = PEOPLE_MAX
) -> Member:
    """Make a person with a first membership. Raises Refused where a fact is invalid, or the address is
    somebody's."""
    try:
        async with db.transaction() as session:
            await lock_people(session, *{PLATFORM, tenant_id})
            person = await add_person(session, name, email)
            return Member(person, await join(session, tenant_id, person.id, role, people_max))
    except IntegrityError as error:
        raise email_taken() from error


async def add_person(session: AsyncSession, name: str, email: str | None) -> Person:
    """Make a person in the caller's transaction, which holds `lock_people` of the platform."""
    now = now_ms()
    row = Person(
        id=uuid7(now),
        name=checked_name("name", name),
        email=None if email is None else checked_email(email),
        created_ms=now,
    )
    session.add(row)
    await record(session, PLATFORM, "person.create", row.id, None, recorded_of(row))
    return row


def email_taken() -> Refused:
    """The Refused for an address that is somebody else's. Pure."""
    return bad_request("somebody has this e-mail address already", field="email", see=see("people.list"))


async def person_of_email(session: AsyncSession, email: str) -> Person | None:
    """The person of an address, open or closed."""
    statement = select(Person).where(col(Person.email) == email.strip().casefold())
    return (await session.exec(statement)).first()


async def find_member(db: Database, tenant_id: str, named: str) -> Member:
    """The member of this id, e-mail address or name, also where they are closed. Raises Refused where there
    is none, or several have the name."""
    names = forms_of(named)
    rows = await _members(
        db,
        tenant_id,
        col(Person.id).in_(names)
        | (col(Person.email) == named.strip().casefold())
        | col(Person.name).in_(names),
    )
    by_id = [row for row in rows if row.person.id in names]
    by_email = [row for row in rows if row.person.email == named.strip().casefold()]
    if exact := by_id or by_email:
        return exact[0]
    still = [row for row in rows if row.membership.ended_ms is None and row.person.closed_ms is None]
    rows = still or rows
    if not rows:
        raise no_member(named)
    if len(rows) > 1:
        raise bad_request(
            f"{len(rows)} people are called {named!r}: name them by e-mail or id",
            field="person",
            see=see("people.list"),
        )
    return rows[0]


async def memberships_of(session: AsyncSession, person_id: str) -> Sequence[Membership]:
    """A person's memberships that have not ended: the platform's first, then the oldest."""
    statement = select(Membership).where(
        col(Membership.person_id) == person_id, col(Membership.ended_ms).is_(None)
    )
    rows = (await session.exec(statement)).all()
    return sorted(rows, key=lambda row: (row.tenant_id != PLATFORM, row.created_ms))


async def ensure_owner(db: Database, name: str) -> Member | None:
    """The owner of this name, made where the platform has no owner yet; None: others own it."""
    owners = select(Person, Membership).join(Membership, col(Membership.person_id) == col(Person.id))
    owners = owners.where(
        col(Membership.tenant_id) == PLATFORM,
        col(Membership.role) == Role.OWNER,
        col(Membership.ended_ms).is_(None),
        col(Person.closed_ms).is_(None),
    )
    async with db.transaction() as session:
        await lock_people(session, PLATFORM)
        rows = [Member(*row) for row in (await session.exec(owners.order_by(col(Person.id)))).all()]
        if not rows:
            person = await add_person(session, name, None)
            return Member(person, await join(session, PLATFORM, person.id, Role.OWNER))
    return next((row for row in rows if same_name(row.person.name, name)), None)


async def check_only_here(db: Database, person_id: str, tenant_id: str) -> None:
    """Raise Refused for a member of others too: a tenant's admin signs nobody in as them."""
    async with db.session() as session:
        rows = await memberships_of(session, person_id)
    if any(row.tenant_id != tenant_id for row in rows):
        raise bad_request(
            "they belong to others too, and sign in by themselves: the installation's owner can help",
            field="person",
        )


async def close_person(db: Database, person_id: str) -> Person:
    """Refuse a person everywhere, with all their sessions and tokens. Raises Refused where they are the last
    owner, or somewhere the last admin."""
    async with db.session() as session:
        tenants = {row.tenant_id for row in await memberships_of(session, person_id)}
    async with db.transaction() as session:
        await lock_people(session, *{PLATFORM, *tenants})
        person = await _locked(session, person_id)
        if person.closed_ms is None:
            rows = await memberships_of(session, person_id)
            if not {row.tenant_id for row in rows} <= {PLATFORM, *tenants}:
                raise bad_request("they became a member elsewhere meanwhile: try again")
            for row in rows:
                await check_not_last(session, row)
            before, now = recorded_of(person), now_ms()
            person.closed_ms = now
            session.add(person)
            ended = sum([await end_sessions_of(session, row.tenant_id, person_id, now) for row in rows])
            after = {**recorded_of(person), "sessions_ended": ended}
            await record(session, PLATFORM, "person.close", person_id, before, after)
    return person


async def reopen_person(db: Database, person_id: str) -> Person:
    """Let a person in again, with the memberships that they had."""
    async with db.transaction() as session:
        await lock_people(session, PLATFORM)
        person = await _locked(session, person_id)
        before = recorded_of(person)
        person.closed_ms = None
        session.add(person)
        await record(session, PLATFORM, "person.reopen", person_id, before, recorded_of(person))
    return person


async def _locked(session: AsyncSession, person_id: str) -> Person:
    person = await session.get(Person, person_id, with_for_update=True)
    if person is None:
        raise no_member(person_id)
    return person


async def _members(db: Database, tenant_id: str, condition: Any) -> list[Member]:
    statement = (
        select(Person, Membership)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(col(Membership.tenant_id) == tenant_id, condition)
    )
    async with db.session() as session:
        return [Member(*row) for row in (await untyped(session).exec(statement)).all()]
