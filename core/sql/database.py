"""SQL: one engine per process, sessions, and migrations to the newest schema. SQLite and Postgres alike.

Knows no table. The tables of every package are migrated by the one linear history in core/migrations.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import Connection, Table, event, insert, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.orm import declared_attr
from sqlmodel import SQLModel
from sqlmodel.ext.asyncio.session import AsyncSession

from core.errors import StartupError
from core.files import file_lock
from core.sql import schema_origin
from core.sql.append_only_triggers import guard, unguard
from core.sql.schema_origin import SchemaOrigin
from core.sql.store_errors import database_failure

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent.parent / "migrations"
MIGRATION_SECONDS_MAX = 120.0
MIGRATION_LOCK = 0x5041_524C_4559  # "PARLEY", the advisory lock that a migration holds on Postgres
SQLITE_BUSY_MS = 10_000
SQLITE_LOOKS_EACH = 50_000  # steps of SQLite's virtual machine, a millisecond or so
OUT_OF_TIME = ("57014", "SQLITE_INTERRUPT")
NO_TABLES = "the database {} has no tables yet: start with `parley up`, or run `parley db migrate`"


class TableBase(SQLModel):
    """The base of every table: its name is the class's in snake case.

    Rows are not validated (SQLModel's way with tables), so that pydantic's validators, a third of a table's
    start, are made only where one is asked for.
    """

    model_config = {"defer_build": True}

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805 # pyright: ignore[reportIncompatibleVariableOverride]
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class Database:
    """A process's connections to one database. Make one at start, close it at the end."""

    def __init__(self, endpoint: str) -> None:
        self.engine = _engine(endpoint)
        self.dialect = self.engine.dialect.name
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._read_engine = self.engine if self.dialect == "sqlite" else autocommit

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection for one statement that only reads, in `async with`. It opens no transaction, whose
        begin and end would be two more trips to Postgres. (SQLite opens none for reads.)"""
        return self._read_engine.connect()

    def looking(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection for statements that only read, in `async with`: in one transaction, which is rolled
        back."""
        return self.engine.connect()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """A session; the caller commits, and what is not committed is rolled back."""
        async with AsyncSession(self.engine, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncSession]:
        """A session that commits when the block ends well, for what reads first and writes by what it read.

        On SQLite it takes the write lock at its start, so that no other writer comes between."""
        async with self.session() as session:
            if self.dialect == "sqlite":
                connection = await session.connection()
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield session
            await session.commit()

    @asynccontextmanager
    async def erasing(self) -> AsyncGenerator[AsyncSession]:
        """A transaction for erasures: SQLite overwrites what it deletes (core/sql/write_ahead_log.py has the
        rest), Postgres does with the next VACUUM."""
        async with self.transaction() as session:
            yield session

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[AsyncSession]:
        """A session that only reads, and sees one state of the database over all its statements. No writer
        waits for it."""
        async with self.session() as session:
            if self.dialect == "sqlite":
                await (await session.connection()).exec_driver_sql("BEGIN")
            else:
                await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    @asynccontextmanager
    async def short_snapshot(self, seconds_max: float) -> AsyncGenerator[AsyncSession]:
        """A snapshot for reads by callers: the database ends a statement that takes longer (SQLite: all of
        them together), with an error that `is_out_of_time` recognises."""
        async with self.snapshot() as session:
            connection = await session.connection()
            if self.dialect != "sqlite":
                milliseconds = max(1, int(seconds_max * 1000))
                await connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
                yield session
                return
            driver: Any = (await connection.get_raw_connection()).driver_connection
            end = time.monotonic() + seconds_max
            await driver.set_progress_handler(lambda: time.monotonic() > end, SQLITE_LOOKS_EACH)
            try:
                yield session
            finally:
                await driver.set_progress_handler(None, 0)

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


def insert_of(dialect: str, table: Any) -> Any:
    """An INSERT in the database's own dialect, which knows what to do where a key exists already."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql  # a twentieth of a command's start, where SQLite is all

    return postgresql.insert(table)


def id_first(id: Any, name: Any, asked: Sequence[str]) -> list[Any]:
    """An ORDER BY for rows matched by id or by name, in forms with the one that was typed first. Ids come
    before names: a row whose name is another's id is not taken for that one."""
    return [id.in_(asked).desc(), name.in_(asked[:1]).desc()]


async def upsert(session: AsyncSession, rows: Sequence[Mapping[str, Any]], of: type[SQLModel]) -> None:
    """Insert rows of one table, or set the values of those whose primary key is there. All name the same
    columns; the caller orders them, so that writers never wait for one another in a circle."""
    if not rows:
        return
    connection = await session.connection()
    table = _table(of)
    statement = insert_of(connection.dialect.name, table)
    keys = [column.name for column in table.primary_key.columns]
    values = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values), list(rows))


async def insert_ignore(
    session: AsyncSession,
    rows: Sequence[SQLModel] | Sequence[msgspec.Struct],
    of: type[SQLModel] | None = None,
) -> list[tuple[Any, ...]]:
    """Insert rows of one table except those whose primary or unique key exists already. `of`: the table,
    where the rows are plain structs.

    Returns the primary keys of the rows that are new, in no particular order."""
    if not rows:
        return []
    table = _table(of or rows[0])
    dialect = session.get_bind().dialect.name
    statement = insert_of(dialect, table).on_conflict_do_nothing()
    connection = await session.connection()
    reply = await connection.execute(
        statement.returning(*table.primary_key.columns), [_facts(row) for row in rows]
    )
    return [tuple(row) for row in reply]


async def insert_rows(
    session: AsyncSession,
    rows: Sequence[SQLModel] | Sequence[msgspec.Struct],
    of: type[SQLModel] | None = None,
) -> None:
    """Insert rows of one table in as few statements as the driver allows. `of`: the table, where the rows are
    plain structs."""
    if rows:
        connection = await session.connection()
        await connection.execute(insert(_table(of or rows[0])), [_facts(row) for row in rows])


async def migrate(endpoint: str) -> None:
    """Bring the schema to the newest version, all or nothing. Safe when several processes run it at once.

    Raises StartupError where the database cannot be reached, opened or migrated, or is of before 0.1.0."""
    url = database_url(endpoint)
    try:
        if url.get_backend_name() == "sqlite":
            await _migrate_sqlite(endpoint, url)
        else:
            await _migrate_postgres(endpoint)
    except (OSError, DBAPIError) as error:
        raise StartupError(f"cannot migrate: {database_failure(error, shown_url(url))}") from error


async def _migrate_sqlite(endpoint: str, url: URL) -> None:
    """Migrate under a lock file: switching to WAL and the first write of a new file do not wait for one
    another."""
    assert url.database, "an in-memory database cannot be shared"
    path = Path(url.database)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock_path = path.with_name(path.name + ".migrate.lock")
    lock = await asyncio.to_thread(file_lock.acquire, lock_path, MIGRATION_SECONDS_MAX)
    if lock is None:
        raise StartupError(f"another process has been migrating {path} for {MIGRATION_SECONDS_MAX:.0f} s")
    try:
        engine = _engine(endpoint)
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
                await connection.run_sync(_upgrade)
                await connection.commit()
        finally:
            await engine.dispose()
    finally:
        os.close(lock)


async def _migrate_postgres(endpoint: str) -> None:
    engine = _engine(endpoint)
    try:
        async with engine.begin() as connection:
            # Held to the end of the transaction, so it cannot outlive a process that dies.
            await connection.execute(text(f"SET LOCAL lock_timeout = {int(MIGRATION_SECONDS_MAX * 1000)}"))
            await connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": MIGRATION_LOCK})
            await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> None:
    from alembic import command  # a quarter of a second that a worker's start does without
    from alembic.migration import MigrationContext

    config = _alembic()
    config.attributes["connection"] = connection
    found = MigrationContext.configure(connection).get_current_revision()
    url = connection.engine.url
    schema_origin.refuse_former(found, shown_url(url))
    if found not in (None, *schema_versions()):
        raise StartupError("the database's schema is of a newer release: run that one")
    if found is not None:
        _refuse_other_text(SchemaOrigin.of(connection.execute(schema_origin.READ).mappings().first()), url)
    if found != schema_versions()[0] and _writes_books(config, found):
        unguard(connection)
    command.upgrade(config, "head")
    schema_origin.note_text(connection, schema_origin.text_of(MIGRATIONS, schema_versions()[0]))
    guard(connection)


def _writes_books(config: "Config", found: str | None) -> bool:
    """True where a version beyond the present one declares WRITES_BOOKS. For others no trigger is lifted: on
    Postgres that waits for all readers of the books, and later readers then wait for it."""
    from alembic.script import ScriptDirectory

    versions = ScriptDirectory.from_config(config).iterate_revisions("head", found or "base")
    return any(getattr(each.module, "WRITES_BOOKS", False) for each in versions)


def _alembic() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def schema_versions() -> list[str]:
    """All versions of the schema that this code knows, the newest first. Read from file names, so that a
    start needs no alembic, which would read each file."""
    return sorted(("p" + each.name[1:5] for each in (MIGRATIONS / "versions").glob("v*.py")), reverse=True)


async def require_schema(db: Database) -> None:
    """Raise StartupError where the schema is older than this code (newer: a deploy), or another one."""
    require_folder(db.engine.url)
    try:
        found = await _found_in(db)
    except (OSError, DBAPIError) as error:
        raise database_failure(error, shown_url(db.engine.url)) from error
    if found.revision is None:
        raise StartupError(NO_TABLES.format(shown_url(db.engine.url)))
    _refuse_other_text(found, db.engine.url)
    if found.revision in schema_versions()[1:]:
        raise StartupError("the database schema is not up to date: run `parley db migrate`")


async def revision_of(db: Database) -> str | None:
    """The schema's revision; None where it was never migrated. StartupError where it is of before 0.1.0."""
    return (await _found_in(db)).revision


async def _found_in(db: Database) -> SchemaOrigin:
    found = SchemaOrigin()
    try:
        async with db.engine.connect() as connection:
            found = SchemaOrigin.of((await connection.execute(schema_origin.READ)).mappings().first())
    except (OSError, DBAPIError) as error:
        if not schema_origin.lacks_the_table(error):
            raise
    schema_origin.refuse_former(found.revision, shown_url(db.engine.url))
    return found


def _refuse_other_text(found: SchemaOrigin, url: URL) -> None:
    if found.revision in schema_versions():
        schema_origin.refuse_other_text(found, MIGRATIONS, url, shown_url(url))


def require_folder(url: URL) -> None:
    """StartupError where a SQLite file's folder is missing, as before a first start."""
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").parent.exists():
        raise StartupError(NO_TABLES.format(shown_url(url)))


def is_out_of_time(error: DBAPIError) -> bool:
    """True for the error of a statement that the database ended for `short_snapshot`."""
    codes = {getattr(error.orig, "sqlstate", None), getattr(error.orig, "sqlite_errorname", None)}
    return not codes.isdisjoint(OUT_OF_TIME)


def shown_url(url: URL) -> str:
    """The URL for people, without secrets, those of its query too."""
    places = {name: value for name, value in url.query.items() if name in ("host", "port")}
    return url.set(query=places).render_as_string(hide_password=True)


def _engine(endpoint: str) -> AsyncEngine:
    url = database_url(endpoint)
    if url.get_backend_name() != "sqlite":
        bare, tls = _without_tls(url)
        return create_async_engine(bare, pool_pre_ping=True, connect_args=tls, hide_parameters=True)
    engine = create_async_engine(url, hide_parameters=True)
    event.listen(engine.sync_engine, "connect", _configure_sqlite)
    return engine


def database_url(endpoint: str) -> URL:
    """The URL's parts. StartupError where it is none, or of a database that Parley does not know."""
    try:
        url = make_url(endpoint)
    except ArgumentError as error:
        raise StartupError("the database URL cannot be parsed (PARLEY_DATABASE_URL)") from error
    if url.drivername not in ("sqlite+aiosqlite", "postgresql+asyncpg"):
        raise StartupError(f"the database must be sqlite+aiosqlite or postgresql, not {url.drivername}")
    return url


def _without_tls(url: URL) -> tuple[URL, dict[str, str]]:
    """The URL without what libpq's users say of TLS, and that as the driver takes it."""
    tls = {name: value for name, value in url.query.items() if name.startswith("ssl") and name != "ssl"}
    arguments = {"dsn": f"postgresql://?{urlencode(tls, doseq=True)}"} if tls else {}
    return url.difference_update_query(tls), arguments


def _configure_sqlite(connection: Any, _record: object) -> None:
    """Set pragmas. synchronous=FULL: a commit that was acknowledged outlives a power cut, as the biller
    relies on. recursive_triggers: a row that INSERT OR REPLACE removes fires delete triggers too.
    secure_delete: nothing stays in the file of what any writer deleted or replaced."""
    cursor = connection.cursor()
    lasting = ("foreign_keys=ON", "synchronous=FULL", "recursive_triggers=ON", "secure_delete=ON")
    for pragma in (f"busy_timeout={SQLITE_BUSY_MS}", *lasting):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _facts(row: SQLModel | msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else row.model_dump()


def _table(row: SQLModel | msgspec.Struct | type[SQLModel]) -> Table:
    of = row if isinstance(row, type) else type(row)
    table: Table | None = getattr(of, "__table__", None)
    assert table is not None, f"{of.__name__} is no table"
    return table
