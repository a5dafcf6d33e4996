"""Names to show for ids of a tenant's projects and keys, on pages that would have ids otherwise."""

from collections.abc import Iterable
from typing import Any

from sqlmodel import col, select

from billing.tables.tenants import ApiKey, Project
from core.sql.database import Database

NAMES_AT_ONCE = 500


async def project_names(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of those projects of the tenant that exist, by id."""
    return {row.id: row.name for row in await _rows(db, Project, tenant_id, ids)}


async def key_names(db: Database, tenant_id: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of those keys of the tenant that exist, by id; of one without a name its prefix, `pk_…`."""
    return {row.id: row.name or f"pk_{row.prefix}" for row in await _rows(db, ApiKey, tenant_id, ids)}


async def _rows(
    db: Database, table: type[ApiKey] | type[Project], tenant_id: str, ids: Iterable[str]
) -> list[Any]:
    wanted, found = sorted({id for id in ids if id}), list[Any]()
    async with db.session() as session:
        for at in range(0, len(wanted), NAMES_AT_ONCE):
            some = col(table.id).in_(wanted[at : at + NAMES_AT_ONCE])
            statement = select(table).where(col(table.tenant_id) == tenant_id, some)
            found += (await session.exec(statement)).all()
    return found
