"""A filled database of every version of the schema comes to the newest one with all its rows as they were, on
SQLite and on Postgres."""

from collections.abc import Mapping

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, select, text
from sqlmodel import SQLModel

from core.sql.database import migrate, schema_versions
from tests.core.all_tables import TABLES_OF_ALL_PACKAGES
from tests.core.conftest import Old, upgrade
from tests.core.filled import Filling, Row, Rows
from tests.support.tiers import by_form

# What versions do to rows there are: tables whose rows go on in another, that get rows, columns that change.
GOES_ON_IN = {("0013", "account"): "tenant_user"}
ADDED_TO = {
    "0001": {"price_book", "price_version", "price"},
    "0013": {"tenant_user"},
    "0014": {"installation_mark"},
    "0020": {"installation_mark"},
    "0025": {"audit_head", "audit_log", "audit_state"},
}
CHANGED = {"0025": {("audit_head", "seq"), ("audit_head", "sha256")}}


async def test_rows_of_every_version_are_kept(old: Old):
    """Two rows in each table are added at every version, and all there are watched over each step: those of a
    version that no installation ended at, too, which are the same but for what came since. On Postgres the
    short form adds them at every fourth version."""
    filling, rows = Filling(), Rows()
    every = 1 if old.database.dialect == "sqlite" else by_form(4, 1)
    for number, version in enumerate(reversed(schema_versions())):
        async with old.database.engine.begin() as connection:
            fills = number % every == 0
            problems, rows = await connection.run_sync(_step, filling, version, rows, fills)
        assert problems == []
    assert await migrate(old.url) == []  # there is nothing left to do
    async with old.database.engine.connect() as connection:
        assert await connection.run_sync(_problems_of_the_newest, rows) == []


def _step(
    connection: Connection, filling: Filling, version: str, before: Rows, fills: bool
) -> tuple[list[str], Rows]:
    keys = {table: filling.keys(table) for table in before}
    upgrade(connection, version)
    after = filling.rows(connection)
    problems = _differences(version, before, after, keys)
    filled = filling.fill(connection, version) if fills else {}
    return problems, {table: [*rows, *filled.get(table, [])] for table, rows in after.items()}


def _differences(version: str, before: Rows, after: Rows, keys: Mapping[str, list[str]]) -> list[str]:
    problems = list[str]()
    for table, rows in before.items():
        now = GOES_ON_IN.get((version, table), table)
        names = keys[table]
        there = {_key(row, names): row for row in after.get(now, [])}
        for row in rows:
            problems += _changes(version, table, row, there.get(_key(row, names)))
    for table, rows in after.items():
        new = len(rows) - len(before.get(table, []))
        problems += [f"{table} has {new} rows more"] if new and table not in ADDED_TO.get(version, ()) else []
    return [f"{version}: {each}" for each in problems]


def _changes(version: str, table: str, was: Row, now: Row | None) -> list[str]:
    if now is None:
        return [f"{table} lost {was}"]
    may = {column for of, column in CHANGED.get(version, set[tuple[str, str]]()) if of == table}
    return [
        f"{table}.{column}: {value!r} → {now.get(column)!r}"
        for column, value in was.items()
        if column not in may and (column not in now or now[column] != value)
    ]


def _key(row: Row, names: list[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in names)


def _problems_of_the_newest(connection: Connection, rows: Rows) -> list[object]:
    tables = SQLModel.metadata.sorted_tables
    assert len(tables) >= len(TABLES_OF_ALL_PACKAGES), "the tables of all packages are known"
    problems: list[object] = list(compare_metadata(MigrationContext.configure(connection), SQLModel.metadata))
    if connection.dialect.name == "sqlite":  # Postgres lets nobody write what refers to nothing
        problems += connection.execute(text("PRAGMA foreign_key_check")).all()
    for table in tables:  # as the platform reads them
        read = connection.execute(select(table)).mappings().all()
        problems += [row for row in rows[table.name] if row not in read]
    return problems
