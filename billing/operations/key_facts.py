"""What operations on keys answer. Times are RFC 3339 in UTC."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType
from sqlmodel import col, select

from billing.reports.key_use import last_hours
from billing.tables.tenants import ApiKey
from billing.tenants.key_ends import Revocation
from billing.tenants.keys import KeyState, key_state, successors
from billing.tenants.users import known_users
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.operations import MoneyAmount, Secret
from core.sql.database import Database


class ApiKeyFacts(msgspec.Struct, frozen=True):
    """A key. `user`: the name of whom it is bound to; empty: it names users itself. `origins`: of the web
    pages that may use it, and nothing else may; empty: any page and program."""

    key: str
    prefix: str
    name: str
    tenant: str
    project: str
    user: str
    shared: bool
    scopes: list[str]
    priority_max: str
    created: str | None
    expires: str | None
    revoked: str | None
    rotated_from: str | None
    origins: list[str]

    @classmethod
    def of(cls, row: ApiKey, users: Mapping[str, str]) -> "ApiKeyFacts":
        """The facts of a row. `users`: names of users, by id."""
        return cls(
            key=row.id,
            prefix=f"pk_{row.prefix}",
            name=row.name,
            tenant=row.tenant_id,
            project=row.project_id,
            user=users.get(row.user_id, row.user_id),
            shared=row.shared,
            scopes=row.scopes,
            priority_max=row.priority_max,
            created=iso_time(row.created_ms),
            expires=iso_time(row.expires_ms),
            revoked=iso_time(row.revoked_ms),
            rotated_from=row.rotated_from,
            origins=row.origins or [],
        )


class RevokedKey(ApiKeyFacts, frozen=True):
    """The key that was named. `ended`: the prefixes of all that are revoked; `goes_on`: of its rotation
    that still work. The old ones stand before the new one."""

    ended: list[str]
    goes_on: list[str]

    @classmethod
    def after(cls, named: ApiKeyFacts, done: Revocation) -> "RevokedKey":
        """The facts of a key after a revocation."""
        ended, goes_on = ([f"pk_{row.prefix}" for row in rows] for rows in (done.ended, done.going_on))
        return cls(**msgspec.structs.asdict(named), ended=ended, goes_on=goes_on)


class ListedKey(ApiKeyFacts, frozen=True):
    """A key in a list. `successor`: the id of the key that it was rotated to; `last_used`: when the hour
    began in which its newest request ended; null: none did in the last 100 days."""

    successor: str | None
    state: KeyState
    last_used: str | None


class ShownKey(ListedKey, frozen=True):
    """One key. `requests`: how many of its requests ended since `since`, an hour ago, or less where its
    tenant has too many to count; of these `last_used` is the time of the newest itself. `created_by`: is told
    to who may read the audit log; `spent_this_month`: by this key alone, to who may see sums."""

    requests: int
    since: str | None
    created_by: str | UnsetType | None = UNSET
    spent_this_month: MoneyAmount | UnsetType = UNSET


class NewKey(msgspec.Struct, frozen=True):
    """A new key and its secret, which is stored nowhere."""

    secret: Secret
    key: ApiKeyFacts


async def facts_of_key(db: Database, row: ApiKey) -> ApiKeyFacts:
    """The facts of one key."""
    return ApiKeyFacts.of(row, await known_users(db, row.tenant_id, [row.user_id]))


async def listed_keys(look: Look, tenant_id: str, rows: Sequence[ApiKey]) -> list[ListedKey]:
    """The facts of these keys of a tenant, with their states and when they were used."""
    ids = [row.id for row in rows]
    followed = await _successors(look.db, tenant_id, ids)
    names = await known_users(look.db, tenant_id, [row.user_id for row in rows])
    now = look.now_ms()
    used = await last_hours(look.db, tenant_id, ids, now)
    return [
        ListedKey(
            **msgspec.structs.asdict(ApiKeyFacts.of(row, names)),
            successor=followed[row.id].id if row.id in followed else None,
            state=key_state(row, followed, now),
            last_used=iso_time(used.get(row.id)),
        )
        for row in rows
    ]


async def _successors(db: Database, tenant_id: str, ids: Sequence[str]) -> Mapping[str, ApiKey]:
    statement = select(ApiKey).where(col(ApiKey.tenant_id) == tenant_id, col(ApiKey.rotated_from).in_(ids))
    async with db.session() as session:
        return successors((await session.exec(statement)).all())
