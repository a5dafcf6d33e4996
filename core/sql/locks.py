"""Locks that stand for no row: one transaction, or one process, at a time.

Both end with whoever holds them. On SQLite a transaction that writes is alone anyway, and processes lock a
file beside the database.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlmodel.ext.asyncio.session import AsyncSession

from core.errors import bad_request
from core.files import file_lock
from core.sql.database import Database

WAIT_SECONDS_MAX = 60.0
LOCK_NOT_AVAILABLE = "55P03"
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


async def lock_until_commit(session: AsyncSession, name: str) -> None:
    """Let one transaction of this name at a time go on from here; what it reads next, the one before has
    committed. The session is of `Database.transaction`."""
    connection = await session.connection()
    if connection.dialect.name != "sqlite":
        await connection.execute(_LOCK, {"name": name})


@asynccontextmanager
async def one_at_a_time(
    db: Database, name: str, wait_seconds_max: float = WAIT_SECONDS_MAX
) -> AsyncGenerator[None]:
    """Run the block, with transactions of its own, in one process at a time under this name. Raises Refused
    where another one keeps it for longer than `wait_seconds_max`."""
    held = _holds_file if db.dialect == "sqlite" else _holds_transaction
    async with held(db, name, wait_seconds_max):
        yield


@asynccontextmanager
async def _holds_file(db: Database, name: str, wait_seconds_max: float) -> AsyncGenerator[None]:
    path = Path(db.engine.url.database or "")
    path = path.with_name(f"{path.name}.{name}.lock")
    lock = await asyncio.to_thread(file_lock.acquire, path, wait_seconds_max)
    if lock is None:
        raise _busy(name)
    try:
        yield
    finally:
        os.close(lock)


@asynccontextmanager
async def _holds_transaction(db: Database, name: str, wait_seconds_max: float) -> AsyncGenerator[None]:
    async with db.engine.connect() as connection:  # 0 would wait for ever
        await connection.execute(text(f"SET LOCAL lock_timeout = {max(1, int(wait_seconds_max * 1000))}"))
        try:
            await connection.execute(_LOCK, {"name": name})
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            raise _busy(name) from error
        yield


def _busy(name: str) -> Exception:
    return bad_request(f"another process is at work on {name}: try again when it is done")
