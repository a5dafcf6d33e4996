"""The row of a pool that was only run so far: made once, as its first start asks."""

from billing.dedicated_pools.owners import last_owner
from billing.dedicated_pools.pools import create_pool
from billing.tables.pools import SHARED, PoolRow
from core.clock import now_ms
from core.sql.database import Database


async def fill_pool(db: Database, pool: str, model: str, version: str, workers: int) -> PoolRow:
    """Make the row of a pool that has none: shared, or its owner's where it was dedicated. Raises Refused as
    `create_pool`."""
    async with db.session() as session:
        last = await last_owner(session, pool)
    row = PoolRow(
        pool=pool,
        model=model,
        version=version,
        workers=workers,
        labels={},
        tenant_id=SHARED if last is None else last.tenant_id,
        project_id="" if last is None else last.project_id,
        made_ms=now_ms(),
    )
    return await create_pool(db, row)
