"""Chains of rotated keys: what is limited by key counts for the chain, under its owner key (the first).

Usage names the key that was used; which chain that is in says the keys' own table. A key never changes its
chain. Reads only.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import ApiKey
from core.sql.database import Database

KEY = "key"  # the scope
KNOWN_MAX = 50_000


class KnownChains:
    """Owner keys that a process has read, at most KNOWN_MAX."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: dict[tuple[str, str], str] = {}

    async def owners(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The owner key of each (tenant, key); a key without a row is its own."""
        unknown: dict[str, set[str]] = {}
        for tenant_id, key_id in keys:
            if key_id and (tenant_id, key_id) not in self._known:
                unknown.setdefault(tenant_id, set()).add(key_id)
        if unknown:
            await self._read(unknown)
        return {each: self._known.get(each, each[1]) for each in keys}

    async def _read(self, unknown: Mapping[str, Collection[str]]) -> None:
        async with self._db.session() as session:
            found = [
                ((tenant_id, id), owner)
                for tenant_id, ids in unknown.items()
                for id, owner in (await chain_owners(session, tenant_id, ids)).items()
            ]
        if len(self._known) + len(found) > KNOWN_MAX:
            self._known.clear()
        self._known.update(found)


async def owner_key_of(db: Database, tenant_id: str, scope: str, scope_id: str) -> str:
    """The id under which a limit of this scope is stored and counts: of a key its owner key, else its own."""
    if scope != KEY or not scope_id:
        return scope_id
    async with db.session() as session:
        return (await chain_owners(session, tenant_id, [scope_id])).get(scope_id, scope_id)


async def chain_owners(session: AsyncSession, tenant_id: str, key_ids: Collection[str]) -> dict[str, str]:
    """Map each of these keys of a tenant to its owner key; unknown ids are left out."""
    if not key_ids:
        return {}
    statement = select(ApiKey.id, ApiKey.owner_key).where(
        col(ApiKey.tenant_id) == tenant_id, col(ApiKey.id).in_(sorted(set(key_ids)))
    )
    return dict((await session.exec(statement)).all())


async def chain_keys(session: AsyncSession, tenant_id: str, owner_key: str) -> list[str]:
    """Ids of all keys of a chain, oldest first."""
    statement = select(ApiKey.id).where(
        col(ApiKey.tenant_id) == tenant_id, col(ApiKey.owner_key) == owner_key
    )
    return list((await session.exec(statement.order_by(col(ApiKey.id)))).all())


def named_keys(rows: Iterable[QuotaPolicy | Budget]) -> list[str]:
    """Ids of keys that limits name. Pure."""
    return [row.scope_id for row in rows if row.scope == KEY and row.scope_id]


def put_on_chains(rows: Iterable[QuotaPolicy | Budget], owners: Mapping[str, str]) -> None:
    """Let limits that name a later key of a chain name its owner key: 0.1.0 stored them under any. The rows
    belong to no session."""
    for row in rows:
        if row.scope == KEY and row.scope_id in owners:
            row.scope_id = owners[row.scope_id]
