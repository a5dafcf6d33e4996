"""Redis as a process of one kind has it."""

from sqlmodel import select

from billing.api import set_budget, set_policy
from billing.tables.tenants import UsageRow
from core.sql.database import Database
from tests.support.redis import Redis


async def limited(db: Database, operator: Redis, tenant: str) -> None:
    """Every kind of count, by the command line's user."""
    for dimension in ("requests_per_minute", "concurrency"):
        for mode in ("enforce", "shadow"):
            await set_policy(db, operator, tenant, scope="tenant", dimension=dimension, limit=50, mode=mode)
    await set_budget(db, operator, tenant, scope="tenant", period="day", limit_nano=10**12)


async def billed(db: Database) -> bool:
    async with db.session() as session:
        return bool((await session.exec(select(UsageRow))).all())
