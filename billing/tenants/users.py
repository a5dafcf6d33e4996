"""A tenant's users: creating, naming, closing and reopening them. Their names are stored in `tenant_user`
alone.

Everything else (keys, limits, usage, conversations, Redis) knows a user by an opaque id, so that erasing the
name there erases it everywhere.
"""

from collections.abc import Iterable, Sequence

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.tables.tenants import TenantUser
from billing.tenants.edits import lock_settings
from billing.tenants.tenancy import close_row, lock_tenant, tell_access
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, bad_request, see, see_help, unknown
from core.ids import uuid7
from core.names import checked_user, forms_of
from core.redis.client import RedisClient
from core.sql.database import Database, insert_ignore

USERS_MAX: int = Settings.model_fields["users_per_tenant_max"].default
NAMES_AT_ONCE = 500


async def create_user(db: Database, tenant_id: str, user: str, users_max: int = USERS_MAX) -> TenantUser:
    """Create a user, as a key bound to one does. Raises Refused where the name is invalid or taken."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        if await find_user(session, tenant_id, checked_user(user)) is not None:
            raise bad_request(f"there is a user {user!r} already", field="user")
        return await name_user(session, tenant_id, user, now_ms(), users_max)


async def name_user(
    session: AsyncSession, tenant_id: str, user: str, now: int, users_max: int = USERS_MAX
) -> TenantUser:
    """Find the user of this name, or create one, in the caller's transaction. Raises Refused where they or
    the tenant are closed, or the tenant has `users_max` open users."""
    name = checked_user(user)
    await lock_tenant(session, tenant_id)
    known = await find_user(session, tenant_id, name)
    if known is not None:
        if known.closed_ms is not None:
            raise bad_request(f"the user {user!r} is closed", field="user", see=see_help("users.reopen"))
        return known
    await _check_room(session, tenant_id, users_max)
    row = TenantUser(tenant_id=tenant_id, id=opaque_id(now), name=name, created_ms=now)
    session.add(row)
    await record(session, tenant_id, "user.create", row.id, None, row.model_dump(exclude={"name"}))
    return row


async def user_id(db: Database, tenant_id: str, user: str, users_max: int = USERS_MAX) -> str:
    """Return the id of the user of this name, who is created when a key, a ticket or a limit first names
    them. Raises Refused where this would be more than `users_max` open users of the tenant.

    The count takes long where there are many users, so it is made without a lock: users first named at the
    same moment may exceed the limit slightly."""
    name, now = checked_user(user), now_ms()
    async with db.session() as session:
        found = await find_user(session, tenant_id, name)
        if found is not None:
            return found.id
        await _check_room(session, tenant_id, users_max)
    async with db.transaction() as session:
        row = TenantUser(tenant_id=tenant_id, id=opaque_id(now), name=name, created_ms=now)
        await insert_ignore(session, [row])  # another process may have added them meanwhile
        found = await find_user(session, tenant_id, name)
    assert found is not None, "a user who was made known"
    return found.id


async def add_user(
    session: AsyncSession, tenant_id: str, user: str, now: int, users_max: int = USERS_MAX
) -> TenantUser:
    """Add a user with a name that nobody can choose, in the caller's transaction and without an audit record,
    as no administrator did it. Raises Refused where the tenant has `users_max` open users."""
    await _check_room(session, tenant_id, users_max)
    row = TenantUser(tenant_id=tenant_id, id=opaque_id(now), name=user, created_ms=now)
    session.add(row)
    await session.flush()
    return row


async def find_user(
    session: AsyncSession, tenant_id: str, user: str, lock: bool = False
) -> TenantUser | None:
    """Find the user of this name in any Unicode form, or by a name older than the rule for names."""
    names = forms_of(user)
    statement = select(TenantUser).where(
        col(TenantUser.tenant_id) == tenant_id, col(TenantUser.name).in_(names)
    )
    if lock:
        statement = statement.with_for_update()
    found = {row.name: row for row in (await session.exec(statement)).all()}
    return next((found[name] for name in names if name in found), None)


async def user_named(db: Database, tenant_id: str, user: str) -> TenantUser | None:
    """Find the user of this name, as `find_user` does, in a session of its own."""
    async with db.session() as session:
        return await find_user(session, tenant_id, user)


async def list_users(db: Database, tenant_id: str) -> Sequence[TenantUser]:
    """All known users by name; erased ones come last."""
    statement = select(TenantUser).where(col(TenantUser.tenant_id) == tenant_id)
    async with db.session() as session:
        users = (await session.exec(statement)).all()
    return sorted(users, key=lambda user: (user.name is None, user.name or user.id))


async def user_names(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Display names of these users by id: of an erased one that word and a tag, of one without a row the id
    itself."""
    wanted = {id for id in ids if id}
    return {id: id for id in wanted} | await known_users(db, tenant_id, wanted)


async def all_user_names(db: Database, tenant_id: str) -> dict[str, str]:
    """Display names of all users of a tenant, by id."""
    return {user.id: shown_name(user) for user in await list_users(db, tenant_id)}


async def known_users(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Display names by id, of those users only that have a row."""
    wanted, found = sorted({id for id in ids if id}), dict[str, str]()
    async with db.session() as session:
        for at in range(0, len(wanted), NAMES_AT_ONCE):
            statement = select(TenantUser).where(
                col(TenantUser.tenant_id) == tenant_id,
                col(TenantUser.id).in_(wanted[at : at + NAMES_AT_ONCE]),
            )
            found |= {row.id: shown_name(row) for row in (await session.exec(statement)).all()}
    return found


def shown_name(user: TenantUser) -> str:
    """A user's name, or for an erased one a tag that tells them from others. Pure."""
    return user.name if user.name is not None else erased_tag(user.id)


def erased_tag(user_id: str) -> str:
    """What stands in place of an erased user's name. Pure."""
    return f"(erased {user_id[-8:]})"


async def close_user(
    db: Database, redis: RedisClient, tenant_id: str, user: str, closed: bool = True
) -> TenantUser:
    """Refuse a user: keys bound to them, and service keys and tickets that name them; or admit them again.

    Service keys may name users who have no row yet: closing such a user creates it."""
    row = await write_closed_user(db, tenant_id, user, closed)
    await tell_access(db, redis, tenant_id)
    return row


async def write_closed_user(db: Database, tenant_id: str, user: str, closed: bool) -> TenantUser:
    """As `close_user`, without telling gateways, who close connections once `tell_access` tells them."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        row = await find_user(session, tenant_id, user, lock=True)
        if row is None:
            name = checked_user(user)
            if not closed:
                raise no_such_user(user, tenant_id)
            row = TenantUser(tenant_id=tenant_id, id=opaque_id(now_ms()), name=name, created_ms=now_ms())
        await close_row(session, tenant_id, row.id, row, closed)
    return row


def no_such_user(named: str, tenant_id: str) -> Refused:
    """The refusal of an unknown user."""
    return unknown(f"there is no user {named!r}", field="user", see=see("users.list", tenant=tenant_id))


async def user_is_closed(db: Database, tenant_id: str, user: str) -> bool:
    """True where nobody may act as this user (an id) of the tenant. A user without a row is open."""
    statement = select(TenantUser.closed_ms).where(
        col(TenantUser.tenant_id) == tenant_id, col(TenantUser.id) == user
    )
    async with db.session() as session:
        return (await session.exec(statement)).first() is not None


def opaque_id(now: int) -> str:
    """Make an id for a new user, which says nothing about them."""
    return "u_" + uuid7(now).replace("-", "")


async def _check_room(session: AsyncSession, tenant_id: str, users_max: int) -> None:
    opened = select(func.count(col(TenantUser.id))).where(
        col(TenantUser.tenant_id) == tenant_id, col(TenantUser.closed_ms).is_(None)
    )
    if (await session.exec(opened)).one() >= users_max:
        raise bad_request(
            "the tenant has as many users as it may (PARLEY_USERS_PER_TENANT_MAX): close one first"
        )
