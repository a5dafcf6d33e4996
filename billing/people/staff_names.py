"""Names of the staff, by which the audit log knows them and adds up what they move: nobody takes another's,
nor what tokens, invitations and commands are called there."""

import unicodedata

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.people import Membership, Person
from billing.tables.tenants import PLATFORM
from core.errors import bad_request

OTHERS = ("token ", "invitation ", "unix:")  # how authors begin who are no people


async def check_staff_name(session: AsyncSession, person_id: str) -> None:
    """Raise Refused where a person who joins the staff is called like another of them, closed and former ones
    too. The caller holds `lock_people` of the platform."""
    person = await session.get_one(Person, person_id)
    if alike(person.name).startswith(OTHERS):
        raise bad_request("this is no name of a person: choose another one", field="name")
    others = (
        select(Person.name)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(col(Membership.tenant_id) == PLATFORM, col(Person.id) != person_id)
    )
    if alike(person.name) in {alike(name) for name in (await session.exec(others)).all()}:
        raise bad_request("somebody of the staff has this name: choose another one", field="name")


def alike(name: str) -> str:
    """What is the same of names that look the same. Pure."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
