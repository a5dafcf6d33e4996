"""Tenants and their projects: creating, changing, closing and reopening them.

Closed tenants and projects keep their rows: nothing used or billed changes. Their keys are refused.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.periods import zone_named
from billing.tables.tenants import PLATFORM, PriceBook, Project, Tenant, TenantUser
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name, forms_of
from core.redis.client import RedisClient
from core.sql.database import Database, id_first
from core.sql.selects import select_columns

CONTROL_CHANNEL = "parley:control"
ACCESS_CHANGED = "access_changed"
PRICES_CHANGED = "prices_changed"
ROUTES_CHANGED = "routes_changed"
PRIORITIES = ("interactive", "standard", "bulk")  # highest first
DEFAULT_PROJECT = "default"
DEFAULT_PRICE_BOOK = "default"
RESERVED_SUFFIX = (
    " "  # suffix that no name may have (core/names.py), so that nobody can take the name in advance
)
PROJECTS_MAX: int = Settings.model_fields["projects_per_tenant_max"].default


class ControlNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message on CONTROL_CHANNEL, as JSON, that gateways must act on at once."""

    kind: str
    tenant: str
    key: str = ""


async def publish_news(redis: RedisClient, tenant_id: str, kind: str = ACCESS_CHANGED, key: str = "") -> None:
    """Publish news. ACCESS_CHANGED: access of some of the tenant's keys or users ended, or ends sooner."""
    await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(ControlNews(kind, tenant_id, key)))


async def create_tenant(
    db: Database, name: str, *, price_book: str = DEFAULT_PRICE_BOOK, priority_max: str = PRIORITIES[0]
) -> Tenant:
    """Create a tenant with one project, `default`. Raises Refused where the name is taken or invalid."""
    name = checked_name("tenant", name, "name")
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
            await _check_book(session, tenant.tenant_id, price_book)
            session.add(tenant)
            await session.flush()
            session.add(project)
            await record(session, tenant.tenant_id, "tenant.create", tenant.tenant_id, None, tenant)
    except IntegrityError as error:
        raise bad_request(f"there is a tenant {name!r} already") from error
    return tenant


async def list_tenants(db: Database) -> Sequence[Tenant]:
    """All tenants, oldest first. For operators."""
    async with db.session() as session:
        return (await session.exec(select(Tenant).order_by(col(Tenant.tenant_id)))).all()


async def tenant_names(db: Database, ids: Iterable[str] | None = None) -> dict[str, str]:
    """Tenants' names by id; None: of all. For operators."""
    statement = select_columns(col(Tenant.tenant_id), col(Tenant.name))
    if ids is not None:
        if not (named := sorted(set(ids))):
            return {}
        statement = statement.where(col(Tenant.tenant_id).in_(named))
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement)).all()
    return {id: name for id, name in rows}


async def find_tenant(db: Database, name_or_id: str) -> Tenant | None:
    """Find a tenant by id or name. An exact id wins over another tenant's name. For operators.

    Among equal names, an erased tenant comes last (its stored name has a hidden suffix)."""
    id, name, names = col(Tenant.tenant_id), col(Tenant.name), forms_of(name_or_id)
    names += [each + RESERVED_SUFFIX for each in names]
    statement = select(Tenant).where(name.in_(names) | id.in_(names))
    async with db.session() as session:
        return (await session.exec(statement.order_by(*id_first(id, name, names)))).first()


async def set_tenant(db: Database, tenant_id: str, **facts: Any) -> Tenant:
    """Change a tenant's `price_book_id`, `time_zone`, `priority_max`, `regex`, `shows_costs` or
    `cache_by_owner`. Raises Refused where a value is invalid."""
    if "priority_max" in facts:
        check_priority(facts["priority_max"])
    if "time_zone" in facts:
        try:
            zone_named(facts["time_zone"])
        except ValueError as error:
            raise bad_request(str(error), field="time_zone") from error
    async with db.transaction() as session:
        tenant = await lock_settings(session, tenant_id)
        assert tenant is not None, "these are a tenant's"
        if "price_book_id" in facts:
            await _check_book(session, tenant_id, facts["price_book_id"])
        before = tenant.model_dump()
        for name, value in facts.items():
            setattr(tenant, name, value)
        await record(session, tenant_id, "tenant.set", tenant_id, before, tenant)
    return tenant


async def _check_book(session: AsyncSession, tenant_id: str, book_id: str) -> None:
    """Raises Refused where there is no such book, or it is another tenant's: nothing would have a price."""
    book = await session.get(PriceBook, book_id)
    if book is None or book.tenant_id not in (PLATFORM, tenant_id):
        raise unknown(f"there is no price book {book_id!r}", field="price_book", see=see("prices.show"))


async def close_tenant(db: Database, redis: RedisClient, tenant_id: str, closed: bool = True) -> Tenant:
    """Refuse a tenant's keys from now on and end its connections; or, with `closed` False, admit it again."""
    tenant = await write_closed(db, tenant_id, closed)
    await tell_access(db, redis, tenant_id)
    return tenant


async def write_closed(db: Database, tenant_id: str, closed: bool) -> Tenant:
    """As `close_tenant`, without telling gateways, who close connections once `tell_access` tells them."""
    async with db.transaction() as session:
        tenant = await lock_settings(session, tenant_id)
        assert tenant is not None, "the platform is never closed"
        await close_row(session, tenant_id, tenant_id, tenant, closed)
    return tenant


async def tell_access(_: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways that access of some of the tenant's keys or users ended, or changed."""
    await publish_news(redis, tenant_id)


async def create_project(
    db: Database, tenant_id: str, name: str, projects_max: int = PROJECTS_MAX
) -> Project:
    """Create a project of a tenant. Raises Refused where the name is taken or invalid, or the tenant is
    closed or has `projects_max` open projects."""
    name = checked_name("project", name, "name")
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
            await record(session, tenant_id, "project.create", project.id, None, project)
    except IntegrityError as error:
        raise bad_request(f"there is a project {name!r} already", field="name") from error
    return project


async def list_projects(db: Database, tenant_id: str) -> Sequence[Project]:
    """A tenant's projects, oldest first."""
    statement = select(Project).where(col(Project.tenant_id) == tenant_id).order_by(col(Project.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def find_project(db: Database, tenant_id: str, name_or_id: str) -> Project | None:
    """Find a tenant's project by its id or its name."""
    id, name, names = col(Project.id), col(Project.name), forms_of(name_or_id)
    statement = select(Project).where(col(Project.tenant_id) == tenant_id, name.in_(names) | id.in_(names))
    async with db.session() as session:
        return (await session.exec(statement.order_by(*id_first(id, name, names)))).first()


async def close_project(
    db: Database, redis: RedisClient, tenant_id: str, project_id: str, closed: bool = True
) -> Project:
    """Refuse a project's keys from now on and end their connections; or admit them again."""
    project = await write_closed_project(db, tenant_id, project_id, closed)
    await tell_access(db, redis, tenant_id)
    return project


async def write_closed_project(db: Database, tenant_id: str, project_id: str, closed: bool) -> Project:
    """As `close_project`, without telling gateways, who close connections once `tell_access` tells them."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        project = await session.get(Project, (tenant_id, project_id))
        if project is None:
            raise no_such_project(project_id, tenant_id)
        await close_row(session, tenant_id, project_id, project, closed)
    return project


def no_such_project(named: str, tenant_id: str) -> Refused:
    """The refusal of an unknown project."""
    return unknown(
        f"there is no project {named!r}", field="project", see=see("projects.list", tenant=tenant_id)
    )


async def lock_tenant(session: AsyncSession, tenant_id: str) -> Tenant:
    """Lock the tenant's row until the transaction ends, so that counts made under it stay true. Raises
    Refused where the tenant is missing or closed."""
    tenant = await lock_settings(session, tenant_id)
    assert tenant is not None, "the platform has no keys, users or projects"
    if tenant.closed_ms is not None:
        raise bad_request(f"the tenant {tenant.name!r} is closed", see=see("tenants.reopen"))
    return tenant


def check_priority(priority: str) -> None:
    """Raises Refused where it is not one of PRIORITIES."""
    if priority not in PRIORITIES:
        raise bad_request(f"unknown priority {priority!r}: choose from {', '.join(PRIORITIES)}")


async def close_row(
    session: AsyncSession, tenant_id: str, target: str, row: Tenant | Project | TenantUser, closed: bool
) -> None:
    """Set or clear `closed_ms`, and record it. A row already in that state keeps its time."""
    before = row.model_dump()
    if closed != (row.closed_ms is not None):
        row.closed_ms = now_ms() if closed else None
    session.add(row)
    kind = {Tenant: "tenant", Project: "project", TenantUser: "user"}[type(row)]
    await record(session, tenant_id, f"{kind}.{'close' if closed else 'reopen'}", target, before, row)
