"""What authors of a tenant's changes, and who else stands there by an id, are called. Reads only."""

from collections.abc import Collection

from sqlmodel import col, select

from billing.tables.people import Invitation, Membership, Person, ServiceToken
from billing.tables.tenants import PLATFORM
from core.sql.database import Database

STAFF = "Parley's staff"
TOKEN, INVITATION = "token ", "invitation "  # how authors begin who are no people
IDS_AT_ONCE = 500


async def people_named(
    db: Database, tenant_id: str, ids: Collection[str], staff: bool = False
) -> dict[str, str]:
    """Names by id, or by what an author is called in place of one, of a tenant's members, tokens and
    invitations. `staff`: the names of the platform's people too, who are STAFF to everybody else."""
    bare = sorted({id.removeprefix(TOKEN).removeprefix(INVITATION) for id in ids})
    names = dict[str, str]()
    for at in range(0, len(bare), IDS_AT_ONCE):
        names |= await _named(db, tenant_id, bare[at : at + IDS_AT_ONCE], staff)
    return {id: said for id in ids if (said := _said(id, names))}


def _said(id: str, names: dict[str, str]) -> str:
    for kind in (TOKEN, INVITATION):
        if id.startswith(kind):
            name = names.get(id.removeprefix(kind))
            return f"{kind}{name}" if name else ""
    return names.get(id, "")


async def _named(db: Database, tenant_id: str, ids: Collection[str], staff: bool) -> dict[str, str]:
    invited = select(Invitation.id, Invitation.email).where(
        col(Invitation.tenant_id) == tenant_id, col(Invitation.id).in_(ids)
    )
    tokens = select(ServiceToken.id, ServiceToken.name).where(
        col(ServiceToken.tenant_id) == tenant_id, col(ServiceToken.id).in_(ids)
    )
    people = (
        select(Person.id, Person.name, Membership.tenant_id)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(col(Person.id).in_(ids), col(Membership.tenant_id).in_([tenant_id, PLATFORM]))
    )
    async with db.session() as session:
        names = dict((await session.exec(invited)).all()) | dict((await session.exec(tokens)).all())
        members = (await session.exec(people)).all()
    names |= {id: name if staff else STAFF for id, name, of in members if of == PLATFORM}
    return names | {id: name for id, name, of in members if of == tenant_id}
