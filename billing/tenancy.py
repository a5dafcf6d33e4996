"""Tenants, projects, users and API keys: making, listing, rotating, revoking, and who a secret belongs to.

A secret is `pk_<prefix>_<rest>`. The prefix finds the row and is shown; of the rest only the SHA-256 is kept.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import bindparam
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from billing.periods import zone_named
from billing.tables import Account, ApiKey, Project, Tenant
from core.clock import now_ms
from core.database import Database, Record, insert_ignore
from core.errors import bad_request
from core.ids import uuid7
from core.redis import Client

CONTROL_CHANNEL = "parley:control"
PRIORITIES = ("interactive", "standard", "bulk")  # highest first
SCOPES = frozenset({"chat", "requests:read", "requests:cancel"})
DEFAULT_SCOPES = ("chat",)
DEFAULT_PROJECT = "default"
DEFAULT_PRICE_BOOK = "default"
SECRET = re.compile(r"pk_([0-9a-f]{12})_([0-9a-f]{48})", re.ASCII)
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


@dataclass(frozen=True)
class Principal:
    """Who calls. `fixed_user`: the key is bound to `user`; else it is a service key, which names users.

    `access_ends_ms` is Unix ms, None: without end; `succeeds` is the key that this one was rotated from."""

    tenant: str
    project: str
    key: str
    user: str
    scopes: frozenset[str]
    priority_max: str
    access_ends_ms: int | None
    fixed_user: bool
    succeeds: str | None = None


class ControlNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message on CONTROL_CHANNEL, as JSON: something that gateways must act on at once."""

    kind: str
    tenant: str
    key: str = ""


async def create_tenant(
    db: Database, name: str, *, price_book: str = DEFAULT_PRICE_BOOK, priority_max: str = PRIORITIES[0]
) -> Tenant:
    """A new tenant with one project, `default`. Raises Refused where the name is taken or not a name."""
    _check_name("tenant", name)
    _check_priority(priority_max)
    now = now_ms()
    tenant = Tenant(
        tenant_id=uuid7(now),
        name=name,
        price_book_id=price_book,
        priority_max=priority_max,
        created_ms=now,
    )
    project = Project(tenant_id=tenant.tenant_id, id=uuid7(now), name=DEFAULT_PROJECT, created_ms=now)
    await _insert(
        db, [tenant, project], f"there is a tenant {name!r} already, or no price book {price_book!r}"
    )
    return tenant


async def list_tenants(db: Database) -> Sequence[Tenant]:
    """All tenants, oldest first. For operators."""
    async with db.session() as session:
        return (await session.exec(select(Tenant).order_by(col(Tenant.tenant_id)))).all()


async def find_tenant(db: Database, name_or_id: str) -> Tenant | None:
    """A tenant by its name or its id. For operators."""
    statement = select(Tenant).where((col(Tenant.name) == name_or_id) | (col(Tenant.tenant_id) == name_or_id))
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def create_project(db: Database, tenant_id: str, name: str) -> Project:
    """A new project of a tenant. Raises Refused where the name is taken, or not a name."""
    _check_name("project", name)
    now = now_ms()
    project = Project(tenant_id=tenant_id, id=uuid7(now), name=name, created_ms=now)
    await _insert(db, [project], f"there is a project {name!r} already, or no such tenant")
    return project


async def list_projects(db: Database, tenant_id: str) -> Sequence[Project]:
    """A tenant's projects, oldest first."""
    statement = select(Project).where(col(Project.tenant_id) == tenant_id).order_by(col(Project.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def set_tenant(db: Database, tenant_id: str, **facts: str) -> Tenant:
    """Change a tenant's `price_book_id`, `time_zone` or `priority_max`. Raises Refused where one is none."""
    if "priority_max" in facts:
        _check_priority(facts["priority_max"])
    if "time_zone" in facts:
        try:
            zone_named(facts["time_zone"])
        except ValueError as error:
            raise bad_request(str(error)) from error
    try:
        async with db.transaction() as session:
            tenant = await session.get(Tenant, tenant_id)
            assert tenant is not None
            for name, value in facts.items():
                setattr(tenant, name, value)
            session.add(tenant)
    except IntegrityError as error:
        raise bad_request(f"there is no price book {facts.get('price_book_id')!r}") from error
    return tenant


async def find_project(db: Database, tenant_id: str, name_or_id: str) -> Project | None:
    """A tenant's project by its name or its id."""
    statement = select(Project).where(
        col(Project.tenant_id) == tenant_id,
        (col(Project.name) == name_or_id) | (col(Project.id) == name_or_id),
    )
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def create_key(
    db: Database,
    tenant_id: str,
    project_id: str,
    *,
    name: str = "",
    scopes: Sequence[str] = DEFAULT_SCOPES,
    user: str = "",
    priority_max: str = PRIORITIES[0],
    expires_ms: int | None = None,
    rotated_from: str | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its secret, which is nowhere else: show it once. `user` binds the key to one user."""
    unknown = set(scopes) - SCOPES
    if unknown:
        raise bad_request(f"unknown scope {sorted(unknown)[0]!r}: choose from {', '.join(sorted(SCOPES))}")
    _check_priority(priority_max)
    if user:
        _check_name("user", user)
    now = now_ms()
    prefix, rest = secrets.token_hex(6), secrets.token_hex(24)
    key = ApiKey(
        tenant_id=tenant_id,
        id=uuid7(now),
        project_id=project_id,
        name=name,
        prefix=prefix,
        secret_sha256=_digest(rest),
        user_id=user,
        scopes=sorted(scopes),
        priority_max=priority_max,
        created_ms=now,
        expires_ms=expires_ms,
        rotated_from=rotated_from,
    )
    accounts = [Account(tenant_id=tenant_id, id=user, created_ms=now)] if user else []
    await _insert(db, [*accounts, key], "there is no such project")
    return key, f"pk_{prefix}_{rest}"


async def list_keys(db: Database, tenant_id: str) -> Sequence[ApiKey]:
    """A tenant's keys, oldest first, revoked ones too."""
    statement = select(ApiKey).where(col(ApiKey.tenant_id) == tenant_id).order_by(col(ApiKey.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


async def rotate_key(db: Database, tenant_id: str, key_id: str, overlap_seconds: int) -> tuple[ApiKey, str]:
    """A successor with the same rights and its secret; the old key works for `overlap_seconds` more."""
    old = await _key(db, tenant_id, key_id)
    if old is None or old.revoked_ms is not None:
        raise bad_request("there is no such key to rotate")
    new, secret = await create_key(
        db,
        tenant_id,
        old.project_id,
        name=old.name,
        scopes=old.scopes,
        user=old.user_id,
        priority_max=old.priority_max,
        expires_ms=old.expires_ms,
        rotated_from=old.id,
    )
    limit = now_ms() + overlap_seconds * 1000
    async with db.transaction() as session:
        old.expires_ms = limit if old.expires_ms is None else min(limit, old.expires_ms)
        session.add(old)
    return new, secret


async def revoke_key(db: Database, redis: Client, tenant_id: str, key_id: str) -> ApiKey | None:
    """End a key at once: first the row, then the news for open connections. None: there is no such key."""
    key = await _key(db, tenant_id, key_id)
    if key is None:
        return None
    if key.revoked_ms is None:
        async with db.transaction() as session:
            key.revoked_ms = now_ms()
            session.add(key)
    news = ControlNews(kind="key_revoked", tenant=tenant_id, key=key.id)
    await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(news))
    return key


async def authenticate_key(db: Database, secret: str) -> Principal | None:
    """Who a secret belongs to; None where it is none, wrong, expired or revoked, or its tenant is closed."""
    match = SECRET.fullmatch(secret)
    if match is None:
        return None
    # The one query that cannot filter by tenant: it finds the tenant.
    found = await _grant(db, _BY_PREFIX, {"prefix": match[1]})
    if found is None or not hmac.compare_digest(found.secret_sha256, _digest(match[2])):
        return None
    return _principal(found)


async def principal_of_key(db: Database, tenant_id: str, key_id: str) -> Principal | None:
    """Who a key that signed somebody in stands for now; None where it is expired, revoked or closed."""
    found = await _grant(db, _BY_ID, {"tenant": tenant_id, "id": key_id})
    return _principal(found) if found is not None else None


# Built once and run on a plain connection: every connection and HTTP call asks this, and a unit of work for
# three objects that nobody changes would cost three times the query.
_GRANT = (
    select(
        ApiKey,
        col(Tenant.priority_max).label("tenant_priority_max"),
        col(Tenant.closed_ms).label("tenant_closed_ms"),
        col(Project.closed_ms).label("project_closed_ms"),
    )
    .join(Tenant, col(Tenant.tenant_id) == col(ApiKey.tenant_id))
    .join(
        Project,
        (col(Project.tenant_id) == col(ApiKey.tenant_id)) & (col(Project.id) == col(ApiKey.project_id)),
    )
)
_BY_PREFIX = _GRANT.where(col(ApiKey.prefix) == bindparam("prefix"))
_BY_ID = _GRANT.where((col(ApiKey.tenant_id) == bindparam("tenant")) & (col(ApiKey.id) == bindparam("id")))


async def _grant(db: Database, statement: Any, facts: dict[str, str]) -> Any | None:
    """A row with the key's columns and the tenant's and project's facts."""
    async with db.engine.connect() as connection:
        return (await connection.execute(statement, facts)).first()


def _principal(found: Any) -> Principal | None:
    expired = found.expires_ms is not None and found.expires_ms <= now_ms()
    if expired or (found.revoked_ms, found.tenant_closed_ms, found.project_closed_ms) != (None, None, None):
        return None
    return Principal(
        tenant=found.tenant_id,
        project=found.project_id,
        key=found.id,
        user=found.user_id,
        scopes=frozenset(found.scopes),
        priority_max=max(found.priority_max, found.tenant_priority_max, key=PRIORITIES.index),
        access_ends_ms=found.expires_ms,
        fixed_user=bool(found.user_id),
        succeeds=found.rotated_from,
    )


async def _key(db: Database, tenant_id: str, key_id: str) -> ApiKey | None:
    statement = select(ApiKey).where(
        col(ApiKey.tenant_id) == tenant_id, (col(ApiKey.id) == key_id) | (col(ApiKey.prefix) == key_id)
    )
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def _insert(db: Database, rows: Sequence[Record], taken: str) -> None:
    """Insert rows in order; a user that is known already stays as it is."""
    try:
        async with db.transaction() as session:
            for row in rows:
                if isinstance(row, Account):
                    await insert_ignore(session, [row])
                else:
                    session.add(row)
                    await session.flush()
    except IntegrityError as error:
        raise bad_request(taken) from error


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _check_name(what: str, name: str) -> None:
    if not NAME.fullmatch(name) or name != name.strip():
        raise bad_request(
            f"{name!r} is no {what} name: 1 to 200 characters, none of them a control character"
        )


def _check_priority(priority: str) -> None:
    if priority not in PRIORITIES:
        raise bad_request(f"unknown priority {priority!r}: choose from {', '.join(PRIORITIES)}")
