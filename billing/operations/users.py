"""Operations on users: the people or things that a tenant's keys act for."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.operations.shared_fields import AUDIT, CONTROL, TenantName
from billing.tables.tenants import TenantUser
from billing.tenants import tenancy, users
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.operations import ADMINS, DEVELOPERS, OPERATORS, ListedPage, Role, Uses, operation
from core.sql.lower_case import holds

USER_EDITORS = OPERATORS | ADMINS
USER_READERS = OPERATORS | DEVELOPERS | {Role.SUPPORT, Role.BILLING, Role.VIEWER}


class ListUsers(ListQuestion, frozen=True, kw_only=True):
    """Whose users, and which of them."""

    tenant: TenantName
    name: Annotated[str, Meta(max_length=200, description="Only those with this in their name.")] = ""


class NameUser(msgspec.Struct, frozen=True, kw_only=True):
    """Which user of which tenant."""

    tenant: TenantName
    user: Annotated[str, Meta(description="The name that the tenant gives them.")]


class UserFacts(msgspec.Struct, frozen=True):
    """A user. `user`: their name; of an erased one a tag. `new`: nobody knew them before they were closed,
    which a misspelt name looks like."""

    user: str
    id: str
    created: str | None
    closed: str | None
    new: bool | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, row: TenantUser) -> "UserFacts":
        """The facts of a row."""
        return cls(users.shown_name(row), row.id, iso_time(row.created_ms), iso_time(row.closed_ms))


@operation(
    "users.create",
    "POST /tenants/{tenant}/users",
    may=USER_EDITORS,
    audit="user.create",
    reason=True,
    uses=Uses(writes=f"tenant tenant_user {AUDIT}"),
)
async def create_user(change: Change, ask: NameUser) -> UserFacts:
    """Make a user known, as a key that is bound to them does."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    users_max = change.settings.users_per_tenant_max
    return UserFacts.of(await users.create_user(change.db, owner, ask.user, users_max))


@operation(
    "users.list",
    "GET /tenants/{tenant}/users",
    may=USER_READERS,
    uses=Uses(reads="tenant tenant_user"),
)
async def list_users(look: Look, ask: ListUsers) -> ListedPage[UserFacts]:
    """List the users who are known, in the order in which they became so."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = select(TenantUser).where(col(TenantUser.tenant_id) == owner)
    if ask.name:
        statement = statement.where(holds(TenantUser.name, ask.name))
    return await listed_page(look, ask, statement, col(TenantUser.id), UserFacts.of)


@operation(
    "users.close",
    "POST /tenants/{tenant}/users/{user}/close",
    may=USER_EDITORS,
    audit="user.close",
    reason=True,
    uses=Uses(writes=f"tenant tenant_user {AUDIT}", keys=CONTROL),
)
async def close_user(change: Change, ask: NameUser) -> UserFacts:
    """Refuse a user from now on: keys bound to them, and keys and tickets that name them.

    Open connections are closed. What they used stays in the books. A user who is not known yet becomes so."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    async with change.db.session() as session:
        known = await users.find_user(session, owner, ask.user) is not None
    facts = await _set_closed(change, ask, True)
    return facts if known else msgspec.structs.replace(facts, new=True)


@operation(
    "users.reopen",
    "POST /tenants/{tenant}/users/{user}/reopen",
    may=USER_EDITORS,
    audit="user.reopen",
    reason=True,
    uses=Uses(writes=f"tenant tenant_user {AUDIT}", keys=CONTROL),
)
async def reopen_user(change: Change, ask: NameUser) -> UserFacts:
    """Let a user in again."""
    return await _set_closed(change, ask, False)


async def _set_closed(change: Change, ask: NameUser, closed: bool) -> UserFacts:
    owner = (await change.tenant(ask.tenant)).tenant_id
    row = await users.write_closed_user(change.db, owner, ask.user, closed)
    change.after(tenancy.tell_access, owner)
    return UserFacts.of(row)


OPERATIONS = (create_user, list_users, close_user, reopen_user)
