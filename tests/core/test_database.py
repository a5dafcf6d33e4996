"""Migrations and sessions, on SQLite and on Postgres."""

import asyncio
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlmodel import select

from billing.tables.tenants import PriceBook, Tenant
from core.errors import StartupError
from core.sql.database import Database, insert_ignore, insert_rows, migrate, require_schema
from tests.support.processes import begun


def a_tenant(name: str) -> Tenant:
    """A row to insert."""
    return Tenant(
        tenant_id=f"id of {name}", name=name, price_book_id="default", priority_max="bulk", created_ms=1
    )


async def test_processes_that_migrate_at_once_all_succeed(empty_url: str) -> None:
    """Each process of an installation may migrate at its start; one does the work, the others wait."""
    argv = [sys.executable, "-m", "tests.core.migrating_process", empty_url]
    processes = [await begun(argv) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    database = Database(empty_url)
    async with database.session() as session:
        assert (await session.exec(select(PriceBook.id))).all() == ["default"]
    await require_schema(database)
    await database.close()


async def test_an_unmigrated_database_is_named_with_the_command_that_helps(
    empty_url: str, home: Path
) -> None:
    """A process that finds no schema says what to run instead of failing later."""
    (home / "a folder").mkdir()
    database = Database(empty_url)
    with pytest.raises(StartupError, match="parley db migrate"):
        await require_schema(database)
    await database.close()


async def test_insert_ignore_returns_the_keys_of_new_rows_only(database: Database) -> None:
    """Rows whose primary or unique key exists stay as they are, and are not reported."""
    async with database.transaction() as session:
        assert await insert_ignore(session, []) == []
        assert await insert_ignore(session, [a_tenant("a")]) == [("id of a",)]
    rows = [a_tenant(name) for name in ("a", "b", "c", "b")]
    async with database.transaction() as session:
        assert sorted(await insert_ignore(session, rows)) == [("id of b",), ("id of c",)]


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    """What a block wrote before it raised is rolled back."""
    with pytest.raises(RuntimeError, match="the block failed"):
        await insert_and_fail(database)
    async with database.session() as session:
        assert (await session.exec(select(Tenant))).all() == []


async def test_a_snapshot_sees_one_state_and_holds_up_nobody(database: Database) -> None:
    """What others write meanwhile is not in it, and they do not wait for it."""
    async with database.snapshot() as session:
        assert (await session.exec(select(Tenant.name))).all() == []
        async with database.transaction() as other:
            await insert_rows(other, [a_tenant("a")])
        assert (await session.exec(select(Tenant.name))).all() == []
    async with database.snapshot() as session:
        assert (await session.exec(select(Tenant.name))).all() == ["a"]


async def test_a_look_opens_no_transaction(database: Database) -> None:
    """On Postgres the second of two statements sees a later time; within a transaction both see its start."""
    if database.dialect == "sqlite":
        assert not await _in_transaction_of_sqlite(database)
        return
    async with database.reading() as connection:
        first = (await connection.execute(text("SELECT now()"))).scalar_one()
        assert (await connection.execute(text("SELECT now()"))).scalar_one() > first
    async with database.engine.connect() as connection:  # the next who has the connection finds it as it was
        first = (await connection.execute(text("SELECT now()"))).scalar_one()
        assert (await connection.execute(text("SELECT now()"))).scalar_one() == first


async def _in_transaction_of_sqlite(database: Database) -> bool:
    async with database.reading() as connection:
        await connection.execute(text("SELECT 1"))
        raw = await connection.get_raw_connection()
        driver: Any = raw.driver_connection
        return driver.in_transaction


async def insert_and_fail(database: Database) -> None:
    """One insert, then an error."""
    async with database.transaction() as session:
        await insert_rows(session, [a_tenant("a")])
        raise RuntimeError("the block failed")


async def test_writers_of_sqlite_wait_for_one_another(home: Path, sqlite_template: Path) -> None:
    """A transaction that reads and then writes by what it read loses nothing to another one."""
    shutil.copy(sqlite_template, home / "parley.db")
    database = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")

    async def one_more() -> None:
        async with database.transaction() as session:
            rows = (await session.exec(select(Tenant))).all()
            await insert_rows(session, [a_tenant(str(len(rows)))])

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(one_more())
    async with database.session() as session:
        names = {tenant.name for tenant in (await session.exec(select(Tenant))).all()}
    assert names == {str(number) for number in range(20)}
    await database.close()


async def test_sqlite_checks_foreign_keys_and_syncs_every_commit(home: Path, sqlite_template: Path) -> None:
    """The books rest on both, and both are off by default in SQLite."""
    shutil.copy(sqlite_template, home / "parley.db")
    database = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    async with database.engine.connect() as connection:
        found = {
            name: (await connection.execute(text(f"PRAGMA {name}"))).scalar()
            for name in ("foreign_keys", "synchronous", "journal_mode")
        }
    assert found == {"foreign_keys": 1, "synchronous": 2, "journal_mode": "wal"}
    await database.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("not a url", "cannot be parsed"),
        ("mysql://somewhere/parley", "must be sqlite"),
        ("sqlite+aiosqlite:////proc/parley/parley.db", "cannot migrate"),
        ("postgresql+asyncpg://me:hunter2@127.0.0.1:1/parley", "cannot migrate"),
    ],
)
async def test_a_database_that_cannot_be_had_is_one_clear_line(url: str, says: str) -> None:
    """No traceback, and no password."""
    with pytest.raises(StartupError, match=says) as raised:
        await migrate(url)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_new_sqlite_folder_is_private(home: Path) -> None:
    """The database holds conversations: its folder is made for its owner only."""
    await migrate(f"sqlite+aiosqlite:///{home / 'new' / 'parley.db'}")
    assert stat.S_IMODE((home / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "url", ["sqlite+aiosqlite:////tmp/none.db", "postgresql+asyncpg://u:p@127.0.0.1:1/x"]
)
async def test_no_error_quotes_the_values_of_a_statement(url: str):
    """They are people's words and names, and what is raised comes far."""
    assert Database(url).engine.sync_engine.hide_parameters
