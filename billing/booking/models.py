"""Facts about models, from the engine's table, which belongs to a package above this one."""

from sqlalchemy import column, func, select, table
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.tenants import UsageRow
from core.sql.database import Database

_VERSIONS = table("model_version", column("name"), column("fingerprint"), column("max_model_len"))


async def context_of(session: AsyncSession, fingerprint: str) -> int | None:
    """Tokens that a request of a model may have, input and output together; None where nobody recorded this
    model."""
    statement = select(func.max(_VERSIONS.c.max_model_len)).where(_VERSIONS.c.fingerprint == fingerprint)
    return (await (await session.connection()).execute(statement)).scalar()


async def is_known_model(db: Database, tenant_id: str, name: str) -> bool:
    """Test for a model of this name that the installation has, or that the tenant has used."""
    recorded = select(_VERSIONS.c.name).where(_VERSIONS.c.name == name).limit(1)
    used = select(col(UsageRow.model)).where(
        col(UsageRow.tenant_id) == tenant_id, col(UsageRow.model) == name
    )
    async with db.looking() as connection:
        for statement in (recorded, used.limit(1)):
            if (await connection.execute(statement)).first() is not None:
                return True
    return False
