"""Facts about models, from the engine's table, which belongs to a package above this one."""

from sqlalchemy import BigInteger, Boolean, String, column, func, select, table
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.tenants import UsageRow
from core.errors import bad_request
from core.sql.database import Database

UNRECORDED_TOKENS_MAX = 1 << 20  # of a model that nobody recorded here
_VERSIONS = table(
    "model_version",
    *(column(name, String) for name in ("name", "version", "fingerprint")),
    *(column(name, BigInteger) for name in ("max_model_len", "created_ms")),
    column("enabled", Boolean),
)


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


async def enabled_versions(db: Database, name: str) -> list[str]:
    """Versions of a model that the installation has, oldest first; none: it has no such model."""
    order = (_VERSIONS.c.created_ms, _VERSIONS.c.version)
    statement = select(_VERSIONS.c.version).where(_VERSIONS.c.name == name, _VERSIONS.c.enabled)
    async with db.session() as session:
        return list((await (await session.connection()).execute(statement.order_by(*order))).scalars())


async def same_model(db: Database, name: str, versions: tuple[str, str]) -> bool:
    """True where workers of two versions of a model may go on with each other's requests: their fingerprints
    are equal."""
    statement = select(_VERSIONS.c.fingerprint).where(
        _VERSIONS.c.name == name, _VERSIONS.c.version.in_(versions)
    )
    async with db.session() as session:
        found = (await (await session.connection()).execute(statement)).scalars().all()
    return len(found) == len(set(versions)) and len(set(found)) == 1


async def check_tokens(session: AsyncSession, fingerprint: str, wanted: int, before: int = 0) -> None:
    """Raises Refused where a request of this model cannot have so many tokens, input and output together. The
    number that it had `before` is always allowed."""
    if wanted <= before:
        return
    most = max(before, await context_of(session, fingerprint) or UNRECORDED_TOKENS_MAX)
    if wanted > most:
        raise bad_request(f"{wanted:,} tokens in all: a request of this model has at most {most:,} tokens")
