"""Finds who may approve what another proposes: staff whose role moves money, and who is somebody else."""

from collections.abc import Sequence
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.people import Membership, Person, ServiceToken
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import TOKEN, UNIX
from core.operations import MONEY
from core.sql.selects import untyped


async def second_people(session: AsyncSession, proposer: str) -> Sequence[Person]:
    """Those who may approve what `proposer` (a proposal's `by`) proposes. A token's maker may not; nor, of a
    command, somebody with its user's name, or the only person that there is."""
    rows = await _approvers(session)
    if proposer.startswith(UNIX):
        names = _names_of(proposer.removeprefix(UNIX))
        return [row for row in rows if row.name.casefold() not in names] if len(rows) > 1 else []
    person = proposer
    if proposer.startswith(TOKEN):
        token = await session.get(ServiceToken, (PLATFORM, proposer.removeprefix(TOKEN)))
        if token is None or not token.by:  # a command made it: nobody knows for whom
            return rows if len(rows) > 1 else []
        person = token.by
    return [row for row in rows if row.id != person]


def _names_of(user: str) -> set[str]:
    """Names of the Unix user, and of who became it by sudo. Pure."""
    return {part.strip(" )").casefold() for part in user.split("(sudo by ")}


async def _approvers(session: AsyncSession) -> list[Person]:
    statement: Any = (
        select(Person)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(
            col(Membership.tenant_id) == PLATFORM,
            col(Membership.role).in_(sorted(MONEY)),
            col(Membership.ended_ms).is_(None),
            col(Person.closed_ms).is_(None),
        )
        .order_by(col(Person.id))
    )
    return list((await untyped(session).exec(statement)).all())
