"""History of pools' owners: each was dedicated to a tenant from a time on, or shared."""

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.hours import PoolOwnership
from billing.tables.dedicated_pools import PoolOwner
from billing.tables.pools import SHARED
from core.sql.database import Database


async def write_owner(session: AsyncSession, pool: str, owned: PoolOwnership) -> PoolOwner | None:
    """Note whose the pool is from now on, where that is new, in a transaction whose audit row the caller
    adds. Returns the last note; None: it was never dedicated."""
    last = await last_owner(session, pool)
    if (owned.tenant_id, owned.project_id) == ((last.tenant_id, last.project_id) if last else (SHARED, "")):
        return last
    row = PoolOwner(
        pool=pool,
        from_ms=max(owned.from_ms, last.from_ms + 1 if last else 0),
        tenant_id=owned.tenant_id,
        project_id=owned.project_id,
        created_ms=owned.from_ms,
    )
    session.add(row)
    await session.flush()
    return row


async def last_owner(session: AsyncSession, pool: str) -> PoolOwner | None:
    """The last note of a pool's owner; None: it was never dedicated."""
    statement = select(PoolOwner).where(col(PoolOwner.pool) == pool)
    return (await session.exec(statement.order_by(col(PoolOwner.from_ms).desc()).limit(1))).first()


async def owner_of(session: AsyncSession, pool: str) -> str:
    """The present owner of a pool; SHARED: none."""
    last = await last_owner(session, pool)
    return SHARED if last is None else last.tenant_id


async def present_owners(db: Database) -> dict[str, str]:
    """The tenant of each pool that is dedicated now. For operators."""
    async with db.session() as session:
        owned = await owners_of(session)
    return {pool: times[-1].tenant_id for pool, times in owned.items() if times[-1].tenant_id != SHARED}


async def owners_of(session: AsyncSession) -> dict[str, list[PoolOwnership]]:
    """Owners of all pools, each pool's in order of time. For operators and for metering."""
    order = (col(PoolOwner.pool), col(PoolOwner.from_ms))
    rows: Sequence[PoolOwner] = (await session.exec(select(PoolOwner).order_by(*order))).all()
    found: dict[str, list[PoolOwnership]] = {}
    for row in rows:
        found.setdefault(row.pool, []).append(PoolOwnership(row.from_ms, row.tenant_id, row.project_id))
    return found
