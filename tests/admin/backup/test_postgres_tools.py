"""Postgres' own programs: which are taken, what they are told, and that a dump is put back whole or not."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import text

from admin.backup import postgres_tools
from admin.backup.postgres_tools import (
    PostgresTools,
    check_dump,
    connection_variables,
    dump,
    find_tools,
    put_back,
    server_facts,
)
from chaos.installation import postgres
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from tests.support.emptied import EmptiedPostgres
from tests.support.home import settings_in


def programs(folder: Path, version: str) -> Path:
    """A folder with programs that only say their version."""
    folder.mkdir(parents=True)
    for name in ("pg_dump", "pg_restore"):
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version} (Debian)'\n")
        (folder / name).chmod(0o700)
    return folder


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Postgres; a folder that its PATH would have."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}")
    monkeypatch.setattr("admin.backup.postgres_tools.DEBIAN", tmp_path / "debian")
    return tmp_path / "path"


def test_the_tools_are_those_of_the_servers_version(home: Path, tmp_path: Path, only_path: Path):
    """The server's own folder, else one of its version, else the next newer one; never an older."""
    settings = settings_in(home)
    old = programs(only_path, "15.18")
    newer = programs(tmp_path / "debian" / "18" / "bin", "18.1")
    equal = programs(tmp_path / "debian" / "17" / "bin", "17beta2")
    own = programs(tmp_path / "server", "17.4")
    assert find_tools(settings, "17.4", str(own)) == PostgresTools(own, "17.4")
    assert find_tools(settings, "17.4 (Debian 1)", "/elsewhere") == PostgresTools(equal, "17beta2")
    assert find_tools(settings, "16.1", None).folder == equal
    assert find_tools(settings, "14.1", None).folder == old
    assert find_tools(settings, "17.4", None, dumped_by="18.0").folder == newer


def test_missing_tools_are_named(home: Path, tmp_path: Path, only_path: Path):
    """The version that is needed, where it was looked and what was there, and the setting."""
    settings = settings_in(home)
    with pytest.raises(StartupError, match=r"Postgres 18: .*18 are needed.*found none.*PARLEY_PG_TOOLS"):
        find_tools(settings, "18.1", None)
    old = programs(only_path, "15.18")
    with pytest.raises(StartupError, match=rf"18 are needed.*{old} \(15\.18\)\. Install.*PARLEY_PG_TOOLS"):
        find_tools(settings, "18.1", None)
    named = settings_in(home, pg_tools=programs(tmp_path / "named", "16.2"))
    programs(tmp_path / "debian" / "18" / "bin", "18.1")
    with pytest.raises(StartupError, match=r"PARLEY_PG_TOOLS \(.*named\) has those of .*16\.2"):
        find_tools(named, "18.1", None)
    with pytest.raises(StartupError, match=r"PARLEY_PG_TOOLS \(.*none\) has neither"):
        find_tools(settings_in(home, pg_tools=tmp_path / "none"), "18.1", None)
    assert find_tools(named, "16.1", None).version == "16.2"


def test_the_connection_is_told_by_the_environment():
    """Place, user, password, and what the URL says of TLS; what cannot be told so is refused."""
    assert connection_variables(
        "postgresql+asyncpg://me:p%40ss@db:5433/parley?sslmode=verify-full&sslrootcert=/ca.pem"
    ) == {
        "PGUSER": "me",
        "PGPASSWORD": "p@ss",
        "PGDATABASE": "parley",
        "PGHOST": "db",
        "PGPORT": "5433",
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": "/ca.pem",
    }
    assert connection_variables("postgresql+asyncpg://me@/parley?host=/run/db")["PGHOST"] == "/run/db"
    assert connection_variables("postgresql+asyncpg://me@/p?host=a:1&host=b:2")["PGPORT"] == "1,2"
    with pytest.raises(StartupError, match="sslpassword"):
        connection_variables("postgresql+asyncpg://me@db/parley?sslpassword=canary")


@pytest.fixture
async def empty(postgres_folder: Path) -> AsyncGenerator[str]:
    """The URL of a database without tables, whose name is as odd as names may be."""
    name = "put =back's"
    await postgres.execute(postgres_folder, f'CREATE DATABASE "{name}"')
    yield postgres.url(postgres_folder, "put%20%3Dback's")
    await postgres.execute(postgres_folder, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
async def tools(postgres_folder: Path, emptied: EmptiedPostgres, settings: Settings) -> PostgresTools:
    """Those of the test's Postgres."""
    db = Database(emptied.url)
    try:
        version, folder = await server_facts(db)
    finally:
        await db.close()
    assert folder is not None
    found = find_tools(settings, version, folder)
    assert found.folder == Path(folder)
    return found


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_dump_is_put_back(
    database_url: str, empty: str, tools: PostgresTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It holds what its snapshot saw, and goes into an empty database once; no word of it stays on disk. It
    may take long, with the programs' words in another folder."""
    monkeypatch.setattr(postgres_tools, "LOOK_SECONDS", 0.001)
    (scratch := tmp_path / "scratch").mkdir()
    db, file = Database(database_url), tmp_path / "database.dump"
    try:
        async with db.snapshot() as session:
            snapshot = (
                await (await session.connection()).execute(text("SELECT pg_export_snapshot()"))
            ).scalar()
            async with db.transaction() as later:
                await (await later.connection()).execute(
                    text("INSERT INTO audit_head (tenant_id, seq, sha256) VALUES ('late', 0, '')")
                )
            await dump(database_url, tools, file, str(snapshot))
    finally:
        await db.close()
    await check_dump(tools, file)
    await put_back(empty, tools, file, scratch)
    assert (sorted(os.listdir(tmp_path)), os.listdir(scratch)) == (["database.dump", "scratch"], [])
    assert file.stat().st_mode & 0o777 == 0o600
    restored = Database(empty)
    try:
        async with restored.reading() as connection:
            count = "SELECT count(*) FROM audit_head WHERE tenant_id = 'late'"
            assert (await connection.execute(text(count))).scalar() == 0
            tables = (await connection.execute(text("SELECT count(*) FROM alembic_version"))).scalar()
            assert tables == 1
        with pytest.raises(StartupError, match=r"pg_restore failed: .*already exists"):
            await put_back(empty, tools, file)
    finally:
        await restored.close()


@pytest.mark.postgres
async def test_a_cut_off_dump_is_noticed(emptied: EmptiedPostgres, tools: PostgresTools, tmp_path: Path):
    """Also where its list of contents is whole."""
    db, file = Database(emptied.url), tmp_path / "database.dump"
    try:
        async with db.snapshot() as session:
            snapshot = (
                await (await session.connection()).execute(text("SELECT pg_export_snapshot()"))
            ).scalar()
            await dump(emptied.url, tools, file, str(snapshot))
    finally:
        await db.close()
    with file.open("r+b") as cut:
        cut.truncate(file.stat().st_size - 100)
    with pytest.raises(StartupError, match="pg_restore failed"):
        await check_dump(tools, file)


@pytest.mark.postgres
async def test_a_failed_dump_is_told_in_a_line(postgres_folder: Path, tools: PostgresTools, tmp_path: Path):
    """With the program's own first error; its words are gone from disk."""
    missing = postgres.url(postgres_folder, "no_such_database")
    with pytest.raises(StartupError, match=r"pg_dump failed: .*no_such_database"):
        await dump(missing, tools, tmp_path / "database.dump", "x")
    assert os.listdir(tmp_path) == ["database.dump"]
