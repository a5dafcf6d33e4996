"""What is known of models here: facts of the engine's table, which is above this package."""

from sqlalchemy import column, func, select, table
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.tenants import UsageRow
from core.sql.database import Database

_VERSIONS = table("model_version", column("name"), column("fingerprint"), column("max_model_len"))


async def context_of(session: AsyncSession, fingerprint: str) -> int | None:
    """How many tokens a request of a model may have, its input and output together; None: nobody recorded
    this model."""
    statement = select(func.max(_VERSIONS.c.max_model_len)).where(_VERSIONS.c.fingerprint == fingerprint)
    return (await (await session.connection()).execute(statement)).scalar()


async def is_known_model(db: Database, tenant_id: str, name: str) -> bool:
    """Whether the installation has, or the tenant has used, a model of this name."""
    recorded = select(_VERSIONS.c.name).where(_VERSIONS.c.name == name).limit(1)
    used = select(col(UsageRow.model)).where(
        col(UsageRow.tenant_id) == tenant_id, col(UsageRow.model) == name
    )
    async with db.engine.connect() as connection:
        for statement in (recorded, used.limit(1)):
            if (await connection.execute(statement)).first() is not None:
                return True
    return False
