"""Performs what was approved as who proposed it, where they still may: a person, a token, or a command."""

from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.recent_moves import BY_TWO
from billing.people.memberships import is_gone, manages_no_more
from billing.tables.approvals import Proposal
from billing.tables.people import Membership, ServiceToken
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import TOKEN, UNIX, OperationActor
from core.actor import Author
from core.clock import now_ms
from core.errors import bad_request
from core.operations import Role
from core.sql.selects import untyped

GONE = "who proposed it may do it no more: somebody else has to propose it"


async def proposer_of(session: AsyncSession, row: Proposal) -> OperationActor:
    """Who performs an approved proposal. Their own amount does not count what two people decided. Raises
    Refused where they are gone; `still` does, where they are by the time of the commit."""
    author = Author(row.author, BY_TWO)
    if row.by.startswith(UNIX):
        return OperationActor(author, Role.OWNER)
    role = await _role_of(session, row.by, held=False)

    async def still(last: AsyncSession) -> None:
        if await _role_of(last, row.by, held=True) != role:
            raise bad_request(GONE)

    return OperationActor(author, Role(role), id=row.by.removeprefix(TOKEN), still=still)


async def _role_of(session: AsyncSession, by: str, held: bool) -> str:
    """The role of a person or token among the staff. `held`: it stays so until the transaction ends."""
    if by.startswith(TOKEN):
        return await _role_of_token(session, by.removeprefix(TOKEN), held)
    if await is_gone(session, PLATFORM, by, held):
        raise bad_request(GONE)
    statement: Any = select(Membership.role).where(
        col(Membership.tenant_id) == PLATFORM,
        col(Membership.person_id) == by,
        col(Membership.ended_ms).is_(None),
    )
    return (await untyped(session).exec(statement)).one()


async def _role_of_token(session: AsyncSession, id: str, held: bool) -> str:
    own = (col(ServiceToken.tenant_id) == PLATFORM, col(ServiceToken.id) == id)
    statement: Any = select(ServiceToken).where(*own).execution_options(populate_existing=True)
    if held:
        statement = statement.with_for_update(read=True)
    token = (await untyped(session).exec(statement)).first()
    if token is None or token.revoked_ms is not None or token.expires_ms <= now_ms():
        raise bad_request(GONE)
    if token.by and await manages_no_more(session, PLATFORM, token.by, held):
        raise bad_request(GONE)
    return token.role
