"""Tenants, their projects and their users: making, changing, closing and opening them again.

What is closed keeps its rows: nothing that was used or billed changes. Its keys are refused from then on.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import zone_named
from billing.tables import Account, Project, Tenant
from billing.tenants.audit_log import record
from core.clock import now_ms
from core.database import Database
from core.errors import bad_request
from core.ids import uuid7
from core.names import checked_name, checked_user, forms_of
from core.redis import Client
from core.settings import Settings

CONTROL_CHANNEL = "parley:control"
ACCESS_CHANGED = "access_changed"
PRIORITIES = ("interactive", "standard", "bulk")  # highest first
DEFAULT_PROJECT = "default"
DEFAULT_PRICE_BOOK = "default"
PROJECTS_MAX: int = Settings.model_fields["projects_per_tenant_max"].default
USERS_MAX: int = Settings.model_fields["users_per_tenant_max"].default


class ControlNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message on CONTROL_CHANNEL, as JSON: something that gateways must act on at once."""

    kind: str
    tenant: str
    key: str = ""


async def tell(redis: Client, tenant_id: str, kind: str = ACCESS_CHANGED, key: str = "") -> None:
    """Publish news. ACCESS_CHANGED: some of the tenant's keys or users may come in no more, or less long."""
    await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(ControlNews(kind, tenant_id, key)))


async def create_tenant(
    db: Database, name: str, *, price_book: str = DEFAULT_PRICE_BOOK, priority_max: str = PRIORITIES[0]
) -> Tenant:
    """A new tenant with one project, `default`. Raises Refused where the name is taken or not a name."""
    name = checked_name("tenant", name)
    check_priority(priority_max)
    now = now_ms()
    tenant = Tenant(
        tenant_id=uuid7(now),
        name=name,
        price_book_id=price_book,
        priority_max=priority_max,
        created_ms=now,
    )
    project = Project(tenant_id=tenant.tenant_id, id=uuid7(now), name=DEFAULT_PROJECT, created_ms=now)
    try:
        async with db.transaction() as session:
            session.add(tenant)
            await session.flush()
            session.add(project)
            await session.flush()
            await record(session, tenant.tenant_id, "tenant.create", tenant.tenant_id, None, tenant)
    except IntegrityError as error:
        taken = await find_tenant(db, name) is not None
        what = f"there is a tenant {name!r} already" if taken else f"there is no price book {price_book!r}"
        raise bad_request(what) from error
    return tenant


async def list_tenants(db: Database) -> Sequence[Tenant]:
    """All tenants, oldest first. For operators."""
    async with db.session() as session:
        return (await session.exec(select(Tenant).order_by(col(Tenant.tenant_id)))).all()


async def tenant_names(db: Database) -> dict[str, str]:
    """What people call the tenants, by id. For operators."""
    return {tenant.tenant_id: tenant.name for tenant in await list_tenants(db)}


async def find_tenant(db: Database, name_or_id: str) -> Tenant | None:
    """A tenant by its name or its id. For operators."""
    names = forms_of(name_or_id)
    statement = select(Tenant).where(col(Tenant.name).in_(names) | col(Tenant.tenant_id).in_(names))
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def set_tenant(db: Database, tenant_id: str, **facts: str) -> Tenant:
    """Change a tenant's `price_book_id`, `time_zone` or `priority_max`. Raises Refused where one is none."""
    if "priority_max" in facts:
        check_priority(facts["priority_max"])
    if "time_zone" in facts:
        try:
            zone_named(facts["time_zone"])
        except ValueError as error:
            raise bad_request(str(error)) from error
    try:
        async with db.transaction() as session:
            tenant = await session.get(Tenant, tenant_id)
            assert tenant is not None
            before = tenant.model_dump()
            for name, value in facts.items():
                setattr(tenant, name, value)
            session.add(tenant)
            await session.flush()
            await record(session, tenant_id, "tenant.set", tenant_id, before, tenant)
    except IntegrityError as error:
        raise bad_request(f"there is no price book {facts.get('price_book_id')!r}") from error
    return tenant


async def close_tenant(db: Database, redis: Client, tenant_id: str, closed: bool = True) -> Tenant:
    """Refuse a tenant's keys from now on, and end its connections; or let it in again (`closed` False)."""
    async with db.transaction() as session:
        tenant = await session.get(Tenant, tenant_id, with_for_update=True)
        if tenant is None:
            raise bad_request(f"there is no tenant {tenant_id!r}")
        await _close(session, tenant_id, tenant_id, tenant, closed)
    await tell(redis, tenant_id)
    return tenant


async def create_project(
    db: Database, tenant_id: str, name: str, projects_max: int = PROJECTS_MAX
) -> Project:
    """A new project of a tenant. Raises Refused where the name is taken, or not a name, or the tenant is
    closed or has `projects_max` open projects."""
    name = checked_name("project", name)
    now = now_ms()
    project = Project(tenant_id=tenant_id, id=uuid7(now), name=name, created_ms=now)
    opened = select(func.count(col(Project.id))).where(
        col(Project.tenant_id) == tenant_id, col(Project.closed_ms).is_(None)
    )
    try:
        async with db.transaction() as session:
            await lock_tenant(session, tenant_id)
            if (await session.exec(opened)).one() >= projects_max:
                raise bad_request(
                    f"the tenant has {projects_max} projects (PARLEY_PROJECTS_PER_TENANT_MAX): close one"
                )
            session.add(project)
            await session.flush()
            await record(session, tenant_id, "project.create", project.id, None, project)
    except IntegrityError as error:
        raise bad_request(f"there is a project {name!r} already") from error
    return project


async def list_projects(db: Database, tenant_id: str) -> Sequence[Project]:
    """A tenant's projects, oldest first."""
    statement = select(Project).where(col(Project.tenant_id) == tenant_id).order_by(col(Project.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def find_project(db: Database, tenant_id: str, name_or_id: str) -> Project | None:
    """A tenant's project by its name or its id."""
    names = forms_of(name_or_id)
    statement = select(Project).where(
        col(Project.tenant_id) == tenant_id, col(Project.name).in_(names) | col(Project.id).in_(names)
    )
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def close_project(
    db: Database, redis: Client, tenant_id: str, project_id: str, closed: bool = True
) -> Project:
    """Refuse a project's keys from now on, and end their connections; or let them in again."""
    async with db.transaction() as session:
        project = await session.get(Project, (tenant_id, project_id), with_for_update=True)
        if project is None:
            raise bad_request(f"there is no project {project_id!r}")
        await _close(session, tenant_id, project_id, project, closed)
    await tell(redis, tenant_id)
    return project


async def create_user(db: Database, tenant_id: str, user: str, users_max: int = USERS_MAX) -> Account:
    """Make a user known, as a key bound to one does. Raises Refused where the name is none or taken."""
    user, now = checked_user(user), now_ms()
    async with db.transaction() as session:
        if await session.get(Account, (tenant_id, user)) is not None:
            raise bad_request(f"there is a user {user!r} already")
        return await name_user(session, tenant_id, user, now, users_max)


async def name_user(
    session: AsyncSession, tenant_id: str, user: str, now: int, users_max: int = USERS_MAX
) -> Account:
    """The user, made known where it was not, in the caller's transaction. Raises Refused where it is closed,
    or the tenant is, or has `users_max` open users."""
    user = checked_user(user)
    await lock_tenant(session, tenant_id)
    known = await session.get(Account, (tenant_id, user))
    if known is not None:
        if known.closed_ms is not None:
            raise bad_request(f"the user {user!r} is closed: see `parley users reopen`")
        return known
    opened = select(func.count(col(Account.id))).where(
        col(Account.tenant_id) == tenant_id, col(Account.closed_ms).is_(None)
    )
    if (await session.exec(opened)).one() >= users_max:
        raise bad_request(f"the tenant has {users_max} users (PARLEY_USERS_PER_TENANT_MAX): close one first")
    account = Account(tenant_id=tenant_id, id=user, created_ms=now)
    session.add(account)
    await session.flush()
    await record(session, tenant_id, "user.create", user, None, account)
    return account


async def list_users(db: Database, tenant_id: str) -> Sequence[Account]:
    """The users that a tenant's keys are bound to, or that were made or closed by name, by name."""
    statement = select(Account).where(col(Account.tenant_id) == tenant_id).order_by(col(Account.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def close_user(db: Database, redis: Client, tenant_id: str, user: str, closed: bool = True) -> Account:
    """Refuse a user: keys bound to them, and service keys and tickets that name them; or let them in again.

    Service keys may name users that nobody made known: one who is closed becomes known by it."""
    async with db.transaction() as session:
        account = await _known_user(session, tenant_id, user)
        if account is None:
            name = checked_user(user)
            if not closed:
                raise bad_request(f"there is no user {user!r}: see `parley users list`")
            account = Account(tenant_id=tenant_id, id=name, created_ms=now_ms())
        await _close(session, tenant_id, account.id, account, closed)
    await tell(redis, tenant_id)
    return account


async def user_is_closed(db: Database, tenant_id: str, user: str) -> bool:
    """Whether nobody may act as this user of the tenant. One who is not known is open."""
    statement = select(Account.closed_ms).where(col(Account.tenant_id) == tenant_id, col(Account.id) == user)
    async with db.session() as session:
        return (await session.exec(statement)).first() is not None


async def lock_tenant(session: AsyncSession, tenant_id: str) -> Tenant:
    """The tenant's row, held until the transaction ends, so that what is counted stays so. Raises Refused
    where it is closed."""
    tenant = await session.get(Tenant, tenant_id, with_for_update=True)
    if tenant is None:
        raise bad_request(f"there is no tenant {tenant_id!r}")
    if tenant.closed_ms is not None:
        raise bad_request(f"the tenant {tenant.name!r} is closed: see `parley tenants reopen`")
    return tenant


def check_priority(priority: str) -> None:
    """Raises Refused where it is none."""
    if priority not in PRIORITIES:
        raise bad_request(f"unknown priority {priority!r}: choose from {', '.join(PRIORITIES)}")


async def _known_user(session: AsyncSession, tenant_id: str, user: str) -> Account | None:
    """A user's row, locked."""
    for name in forms_of(user):
        account = await session.get(Account, (tenant_id, name), with_for_update=True)
        if account is not None:
            return account
    return None


async def _close(
    session: AsyncSession, tenant_id: str, target: str, row: Tenant | Project | Account, closed: bool
) -> None:
    """Set or clear `closed_ms`, and record it. What is so already stays as it is."""
    before = row.model_dump()
    if closed != (row.closed_ms is not None):
        row.closed_ms = now_ms() if closed else None
    session.add(row)
    await session.flush()
    kind = {Tenant: "tenant", Project: "project", Account: "user"}[type(row)]
    await record(session, tenant_id, f"{kind}.{'close' if closed else 'reopen'}", target, before, row)
