"""Lifts the triggers of tables that only grow (core/sql/append_only.py), as whoever owns the database can:
for benches and tests that tamper on purpose, and for nobody else."""

import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from core.sql.append_only import MARK
from core.sql.append_only_triggers import guard, unguard
from core.sql.database import Database


async def tamper(db: Database, *statements: str) -> None:
    """Run these as if there were no triggers, in one transaction; they stand again when it ends."""
    async with unguarded(db) as connection:
        for statement in statements:
            await connection.execute(text(statement))


@asynccontextmanager
async def unguarded(db: Database) -> AsyncGenerator[AsyncConnection]:
    """A transaction without them. On Postgres as a superuser, for whom they sleep (with its foreign keys)."""
    async with db.engine.begin() as connection:
        if db.dialect != "sqlite":
            await connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            yield connection
            return
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
        await connection.run_sync(unguard)
        yield connection
        await connection.run_sync(guard)


@contextmanager
def unguarded_file(connection: sqlite3.Connection) -> Generator[None]:
    """The same on an open SQLite file; the caller commits."""
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    found = [(name, sql) for name, sql in rows if MARK in name]
    for name, _ in found:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for _, sql in found:
        connection.execute(sql)
