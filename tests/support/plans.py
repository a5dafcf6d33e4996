"""How a database would read."""

from typing import Any

from sqlalchemy import text

from core.sql.database import Database


async def plan_of(db: Database, statement: Any) -> str:
    """How the database reads, where it may not do with a small table what it would not with a large one."""
    async with db.engine.connect() as connection:
        sql = str(statement.compile(db.engine, compile_kwargs={"literal_binds": True}))
        if db.dialect == "sqlite":
            return "\n".join(row[3] for row in await connection.execute(text(f"EXPLAIN QUERY PLAN {sql}")))
        for way in ("seqscan", "bitmapscan", "sort"):
            await connection.execute(text(f"SET LOCAL enable_{way} = off"))
        return "\n".join(row[0] for row in await connection.execute(text(f"EXPLAIN {sql}")))
