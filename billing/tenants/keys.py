"""API keys: creation, listing, rotation, and the principal behind a secret.

A secret is `pk_<prefix>_<rest>`. The prefix finds the row and is shown; of the rest only the SHA-256 is kept.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import String, bindparam, case
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.tables.tenants import ApiKey, Project, Tenant, TenantUser
from billing.tenants.key_rights import DEFAULT_SCOPES, ORIGINS_MAX, RIGHTS, checked_origins, checked_scopes
from billing.tenants.tenancy import PRIORITIES, check_priority, lock_tenant, publish_news
from billing.tenants.users import USERS_MAX, name_user
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, SeeOperation, bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name, checked_user
from core.redis.client import RedisClient
from core.sql.database import Database
from core.sql.selects import select_columns

KEYS_MAX: int = Settings.model_fields["keys_per_tenant_max"].default
KEY_REVOKED = "key_revoked"
NO_DIGEST = "0" * 64  # the digest that an unknown prefix is compared with
SECRET = re.compile(r"pk_([0-9a-f]{12})_([0-9a-f]{48})", re.ASCII)


@dataclass(frozen=True)
class Principal:
    """The authenticated caller. `fixed_user`: the caller is always `user`; else it is a service key, which
    names users. `owner_key`: the first key in `key`'s chain of rotations, which owns what belongs to a
    service key. `shared`: the key's tickets need not name a user. `session`: the signed-in browser's.
    `origins`: of the web pages that may use it, none: anything may. `regex`: its tenant may ask for patterns.

    `access_ends_ms` is Unix ms, None: without end."""

    tenant: str
    project: str
    key: str
    user: str
    scopes: frozenset[str]
    priority_max: str
    access_ends_ms: int | None
    fixed_user: bool
    owner_key: str
    shared: bool = False
    session: str = ""
    regex: bool = True
    shows_costs: bool = False
    cache_by_owner: bool = False
    origins: tuple[str, ...] = ()

    @property
    def sees_amounts(self) -> bool:
        """True where the caller is told what requests cost: services always, users where their tenant shows
        it."""
        return self.shows_costs or not self.fixed_user


class KeyState(StrEnum):
    """State of a key, as `parley keys list` shows it. ROTATED: it has a successor, and still works."""

    ACTIVE = "active"
    ROTATED = "rotated"
    EXPIRED = "expired"
    REVOKED = "revoked"


async def create_key(
    db: Database,
    tenant_id: str,
    project_id: str,
    *,
    name: str = "",
    scopes: Sequence[str] = DEFAULT_SCOPES,
    origins: Sequence[str] = (),
    user: str = "",
    shared: bool = False,
    priority_max: str = PRIORITIES[0],
    expires_ms: int | None = None,
    keys_max: int = KEYS_MAX,
    users_max: int = USERS_MAX,
    origins_max: int = ORIGINS_MAX,
) -> tuple[ApiKey, str]:
    """Create a key; return it and its secret, which is stored nowhere: show it once. `user` binds the key to
    one user; `shared`: the tickets of a service key need not name one; `origins`: of the pages that may use
    it.

    Raises Refused where a fact is invalid, the tenant, project or user is closed, or the tenant has
    `keys_max` working keys."""
    scopes, origins = checked_scopes(scopes, user), checked_origins(origins, origins_max)
    check_priority(priority_max)
    name = checked_name("key", name, "name") if name else ""
    user = checked_user(user) if user else ""
    now = now_ms()
    if expires_ms is not None and expires_ms <= now:
        raise bad_request("the key would have expired already: give a later time", field="expires")
    draft, secret = _draft(
        now,
        tenant_id=tenant_id,
        project_id=project_id,
        name=name,
        user_id=user,
        shared=shared,
        scopes=scopes,
        origins=origins or None,
        priority_max=priority_max,
        expires_ms=expires_ms,
    )
    try:
        async with db.transaction() as session:
            await _check_room(session, tenant_id, now, keys_max)
            await _check_open(session, tenant_id, project_id)
            if user:
                draft.user_id = (await name_user(session, tenant_id, user, now, users_max)).id
            session.add(draft)
            await record(session, tenant_id, "key.create", draft.id, None, draft)
    except IntegrityError as error:
        raise bad_request("there is no such project") from error
    return draft, secret


async def list_keys(db: Database, tenant_id: str) -> Sequence[ApiKey]:
    """A tenant's keys, oldest first, revoked ones too."""
    statement = select(ApiKey).where(col(ApiKey.tenant_id) == tenant_id).order_by(col(ApiKey.id))
    async with db.session() as session:
        return (await session.exec(statement)).all()


def successors(keys: Sequence[ApiKey]) -> dict[str, ApiKey]:
    """Map each rotated key's id to the key that followed it. Pure."""
    return {key.rotated_from: key for key in keys if key.rotated_from is not None}


def key_state(key: ApiKey, followed: Mapping[str, ApiKey], now: int) -> KeyState:
    """Derive a key's state from the time and from `followed` (see `successors`). Pure."""
    if key.revoked_ms is not None:
        return KeyState.REVOKED
    if key.expires_ms is not None and key.expires_ms <= now:
        return KeyState.EXPIRED
    return KeyState.ROTATED if key.id in followed else KeyState.ACTIVE


async def rotate_key(
    db: Database, tenant_id: str, key_id: str, overlap_seconds: int, redis: RedisClient | None = None
) -> tuple[ApiKey, str]:
    """Create a successor with the same rights; return it and its secret. The old key works for
    `overlap_seconds` more.

    Raises Refused where the key does not work any more or has a successor already: a chain has no branches.
    `redis`: publishes the change to gateways at once; without it they notice at their next look-up."""
    now = now_ms()
    async with db.transaction() as session:
        await lock_tenant(session, tenant_id)
        old = await find_key(session, tenant_id, key_id)
        if old is None or old.revoked_ms is not None:
            raise unknown(
                f"there is no such key to rotate: {key_id!r} is unknown or revoked (a key is "
                "named by its id or prefix, pk_…, not by its name)",
                field="key",
                see=_listed(tenant_id),
            )
        if old.expires_ms is not None and old.expires_ms <= now:
            raise bad_request(f"pk_{old.prefix} has expired: create a new key")
        follower = select(ApiKey).where(
            col(ApiKey.tenant_id) == tenant_id, col(ApiKey.rotated_from) == old.id
        )
        if (next_key := (await session.exec(follower)).first()) is not None:
            raise bad_request(f"pk_{old.prefix} was rotated already: its successor is pk_{next_key.prefix}")
        await _check_open(session, tenant_id, old.project_id)
        new, secret = _draft(
            now, rotated_from=old.id, owner_key=old.owner_key, **old.model_dump(include=RIGHTS)
        )
        limit = now + overlap_seconds * 1000
        old.expires_ms = limit if old.expires_ms is None else min(limit, old.expires_ms)
        session.add(new)
        await record(session, tenant_id, "key.rotate", old.id, None, {**new.model_dump(), "until": limit})
    if redis is not None:
        await publish_news(redis, tenant_id)
    return new, secret


def no_such_key(named: str, tenant_id: str) -> Refused:
    """The refusal of an unknown key. A secret given in its place is not repeated."""
    if SECRET.fullmatch(named):
        message = "that is a key's secret: name the key by its id or prefix"
    else:
        message = f"there is no key {named!r}"
    return unknown(message, field="key", see=_listed(tenant_id))


def _listed(tenant_id: str) -> SeeOperation:
    return see("keys.list", tenant=tenant_id)


async def authenticate_key(db: Database, secret: str) -> Principal | None:
    """Return the principal of a secret; None where it is malformed, wrong, expired or revoked, or its tenant,
    project or user is closed."""
    match = SECRET.fullmatch(secret)
    if match is None:
        return None
    found = await _grant_of_secret(db, match)
    return principal_of_grant(found) if found is not None else None


async def _grant_of_secret(db: Database, match: re.Match[str]) -> Any | None:
    # The one query that cannot filter by tenant: it finds the tenant.
    found = await _grant(db, _BY_PREFIX, {"prefix": match[1]})
    # The same work for a known and an unknown prefix, so that timing tells nothing.
    right = hmac.compare_digest(found.secret_sha256 if found is not None else NO_DIGEST, _digest(match[2]))
    return found if right else None


async def is_suspended_secret(db: Database, secret: str) -> bool:
    """True where only the closing of its tenant makes a secret invalid. Tell this to nobody but the sender of
    the secret."""
    match = SECRET.fullmatch(secret)
    found = await _grant_of_secret(db, match) if match is not None else None
    return found is not None and is_suspended_grant(found)


async def is_suspended_key(db: Database, tenant_id: str, key_id: str, user: str = "") -> bool:
    """True where only the closing of its tenant ends a key. For bearers that showed or proved the key
    before."""
    found = await _grant(db, _BY_ID, {"tenant": tenant_id, "id": key_id, "user": user})
    return found is not None and is_suspended_grant(found)


async def principal_of_key(db: Database, tenant_id: str, key_id: str, user: str = "") -> Principal | None:
    """Return the principal of a key now; None where it is expired or revoked, or its tenant, project or user
    is closed. `user`: a user that a service key was used for, who must not be closed either."""
    found = await _grant(db, _BY_ID, {"tenant": tenant_id, "id": key_id, "user": user})
    return principal_of_grant(found) if found is not None else None


def grants(user: Any, through: tuple[Any, Any] | None = None) -> Any:
    """Select keys with everything that may have ended them. `user`: SQL of the id of the user who must not be
    closed; `through`: a table to look the keys up by, and its join."""
    of_project = (col(Project.tenant_id) == col(ApiKey.tenant_id)) & (
        col(Project.id) == col(ApiKey.project_id)
    )
    found = select_columns(
        ApiKey,
        col(Tenant.priority_max).label("tenant_priority_max"),
        col(Tenant.closed_ms).label("tenant_closed_ms"),
        col(Project.closed_ms).label("project_closed_ms"),
        col(TenantUser.closed_ms).label("user_closed_ms"),
        col(Tenant.regex).label("tenant_regex"),
        col(Tenant.shows_costs),
        col(Tenant.cache_by_owner),
    )
    if through is not None:
        found = found.join(*through)
    return (
        found.join(Tenant, col(Tenant.tenant_id) == col(ApiKey.tenant_id))
        .join(Project, of_project)
        .outerjoin(
            TenantUser,
            (col(TenantUser.tenant_id) == col(ApiKey.tenant_id)) & (col(TenantUser.id) == user),
        )
    )


# Built once and run on a plain connection: every connection and HTTP call runs it, and an ORM session for
# three objects that nobody changes would cost three times the query.
_OWN_USER = col(ApiKey.user_id)
_NAMED_USER = case((_OWN_USER != "", _OWN_USER), else_=bindparam("user", type_=String))
_BY_PREFIX = grants(_OWN_USER).where(col(ApiKey.prefix) == bindparam("prefix"))
_BY_ID = grants(_NAMED_USER).where(
    (col(ApiKey.tenant_id) == bindparam("tenant")) & (col(ApiKey.id) == bindparam("id"))
)


async def _grant(db: Database, statement: Any, facts: dict[str, str]) -> Any | None:
    """Read one row with the key's columns and the tenant's, project's and user's facts."""
    async with db.reading() as connection:
        return (await connection.execute(statement, facts)).first()


def principal_of_grant(found: Any) -> Principal | None:
    """Return the principal of a row of `grants`; None where something has ended it."""
    if found.tenant_closed_ms is not None or _has_ended(found):
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
        owner_key=found.owner_key,
        shared=found.shared,
        regex=found.tenant_regex,
        shows_costs=found.shows_costs,
        cache_by_owner=found.cache_by_owner,
        origins=tuple(found.origins or ()),
    )


def is_suspended_grant(found: Any) -> bool:
    """True where a row of `grants` is ended by the closing of its tenant and nothing else."""
    return found.tenant_closed_ms is not None and not _has_ended(found)


def _has_ended(found: Any) -> bool:
    expired = found.expires_ms is not None and found.expires_ms <= now_ms()
    ends = (found.revoked_ms, found.project_closed_ms, found.user_closed_ms)
    return expired or any(end is not None for end in ends)


async def find_key(session: AsyncSession, tenant_id: str, key_id: str) -> ApiKey | None:
    """Find a key by its id or its prefix."""
    statement = select(ApiKey).where(
        col(ApiKey.tenant_id) == tenant_id,
        (col(ApiKey.id) == key_id) | (col(ApiKey.prefix) == key_id.removeprefix("pk_")),
    )
    return (await session.exec(statement)).first()


async def _check_room(session: AsyncSession, tenant_id: str, now: int, keys_max: int) -> None:
    """Lock the tenant's row. Raises Refused where the tenant is closed or has as many keys as it may."""
    await lock_tenant(session, tenant_id)
    working = select(func.count(col(ApiKey.id))).where(
        col(ApiKey.tenant_id) == tenant_id,
        col(ApiKey.revoked_ms).is_(None),
        col(ApiKey.expires_ms).is_(None) | (col(ApiKey.expires_ms) > now),
    )
    if (await session.exec(working)).one() >= keys_max:
        raise bad_request(f"the tenant has {keys_max} keys (PARLEY_KEYS_PER_TENANT_MAX): revoke one first")


async def _check_open(session: AsyncSession, tenant_id: str, project_id: str) -> None:
    project = await session.get(Project, (tenant_id, project_id))
    if project is not None and project.closed_ms is not None:
        raise bad_request(f"the project {project.name!r} is closed")


def _draft(now: int, **facts: Any) -> tuple[ApiKey, str]:
    """A new row and its secret."""
    prefix, rest = secrets.token_hex(6), secrets.token_hex(24)
    id = uuid7(now)
    facts = {"owner_key": id, **facts}
    row = ApiKey(id=id, prefix=prefix, secret_sha256=_digest(rest), created_ms=now, **facts)
    return row, f"pk_{prefix}_{rest}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
