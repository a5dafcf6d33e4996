"""SQLite's write-ahead log, which keeps former pages, and so what was erased from them, while any process has
the database open."""

from core.sql.database import SQLITE_BUSY_MS, Database

WAIT_MS = 500  # for readers; writers wait as long


async def empty_log(db: Database, tries: int = 1) -> bool:
    """Move all of the log into the database and cut it to nothing. False: somebody reads an older state, and
    the log stays as it is. True on Postgres, which has none of ours."""
    if db.dialect != "sqlite":
        return True
    for _ in range(tries):
        async with db.engine.connect() as connection:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout={WAIT_MS}")
            try:
                found = await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                if found.one()[0] == 0:
                    return True
            finally:
                await connection.exec_driver_sql(f"PRAGMA busy_timeout={SQLITE_BUSY_MS}")
    return False
