"""What stands in a database, whichever table it is in."""

from sqlalchemy import inspect, text

from core.sql.database import Database


async def tables_with(database: Database, word: str) -> set[str]:
    """The tables in which a word stands anywhere."""
    async with database.engine.connect() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        return {
            name
            for name in names
            for row in await connection.execute(text(f"SELECT * FROM {name}"))
            if word in repr(tuple(row))
        }
