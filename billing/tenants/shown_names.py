"""Names to show for ids of tenants' projects, keys and users, on pages that would have ids otherwise. What
does not exist is left out."""

from collections.abc import Iterable
from typing import Any

from sqlmodel import col, select

from billing.tables.tenants import ApiKey, Project, TenantUser
from billing.tenants.users import shown_name
from core.sql.database import Database

NAMES_AT_ONCE = 500
Owned = tuple[str, str]  # a tenant's id, and that of a thing of theirs


async def project_names(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of these projects of a tenant, by id."""
    return {row.id: row.name for row in await _rows(db, Project, ((tenant_id, id) for id in ids))}


async def key_names(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of these keys of a tenant, by id; of one without a name its prefix, `pk_…`."""
    named = await keys_named(db, ((tenant_id, id) for id in ids))
    return {id: name for (_, id), name in named.items()}


async def keys_named(db: Database, keys: Iterable[Owned]) -> dict[Owned, str]:
    """The same, of several tenants."""
    rows = await _rows(db, ApiKey, keys)
    return {(row.tenant_id, row.id): row.name or f"pk_{row.prefix}" for row in rows}


async def users_named(db: Database, users: Iterable[Owned]) -> dict[Owned, str]:
    """Names of these users of several tenants; of an erased one that word and a tag."""
    return {(row.tenant_id, row.id): shown_name(row) for row in await _rows(db, TenantUser, users)}


async def _rows(db: Database, table: Any, owned: Iterable[Owned]) -> list[Any]:
    wanted, found = sorted({each for each in owned if each[1]}), list[Any]()
    async with db.session() as session:
        for at in range(0, len(wanted), NAMES_AT_ONCE):
            some = set(wanted[at : at + NAMES_AT_ONCE])
            of_tenants = col(table.tenant_id).in_(sorted({tenant for tenant, _ in some}))
            statement = select(table).where(of_tenants, col(table.id).in_(sorted({id for _, id in some})))
            rows = (await session.exec(statement)).all()
            found += [row for row in rows if (row.tenant_id, row.id) in some]
    return found
