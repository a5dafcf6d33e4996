"""Tables that only grow say so themselves, on SQLite and on Postgres: no row is changed or deleted but as
erasing and withdrawing have to."""

import re
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import BigInteger, Boolean, Column, Integer, Table, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import SQLModel

from billing.prices import withdrawals
from chaos.tampering.unguarded import tamper, unguarded
from core.access.tables import EVERYTHING
from core.cli import in_one_line, parley
from core.clock import now_ms
from core.errors import StartupError
from core.sql.append_only import APPEND_ONLY, DERIVED, EXCEPTED, FUNCTION, MARK, SAYS, STATE, drop, triggers
from core.sql.append_only_triggers import guard
from core.sql.database import Database, _alembic, _writes_books, migrate
from core.sql.store_errors import database_failure
from tests.core.all_tables import TABLES_OF_ALL_PACKAGES
from tests.support.patience import soon

OPAQUE, OTHER = "u_" + "0a" * 16, "u_" + "1b" * 16
PROOF = "u" + "1" * 96
HOUR_MS = 3_600_000
YEAR_2100_MS = 4_102_444_800_000
ANOTHER = {"BOOLEAN": "false", "VARCHAR": "'another'", "TEXT": "'another'", "JSON": "'{}'"}


def test_each_table_only_grows_or_is_derived_or_is_state() -> None:
    """A new one has to be declared (core/sql/append_only.py)."""
    assert len(TABLES_OF_ALL_PACKAGES) > 5  # they are imported
    declared = [*APPEND_ONLY, *DERIVED.split(), *STATE.split()]
    new = SQLModel.metadata.tables.keys() - set(declared)
    assert not new, f"in none of APPEND_ONLY, DERIVED, STATE of core/sql/append_only.py: {sorted(new)}"
    new = set(declared) - set(EVERYTHING.split())
    assert not new, f"given to no process in core/access/tables.py: {sorted(new)}"
    assert sorted(declared) == sorted(SQLModel.metadata.tables)
    assert sorted(declared) == sorted(EVERYTHING.split())


@pytest.mark.parametrize(
    ("dialect", "events"), [("sqlite", "update delete"), ("postgresql", "update delete truncate")]
)
def test_a_triggers_name_says_what_it_does(dialect: str, events: str) -> None:
    """Which table's, of what, and by a hash just how, so that another rule is another name. None is cut."""
    columns = {name: list(SQLModel.metadata.tables[name].columns.keys()) for name in EXCEPTED}
    made = triggers(dialect, columns)
    assert [(each.table, each.name.rpartition(MARK)[0]) for each in made] == [
        (table, f"{table}_{event}") for table in APPEND_ONLY for event in events.split()
    ]
    for each in made:
        event = each.name.rpartition(MARK)[0].rpartition("_")[2].upper()
        assert re.fullmatch("[0-9a-f]{8}", each.name.rpartition(MARK)[2])
        assert len(each.name) < 63  # where Postgres would cut it
        assert each.sql.startswith(f"CREATE TRIGGER {each.name} BEFORE {event} ON {each.table} ")
    names, wider = {each.name for each in made}, {name: [*columns[name], "x"] for name in columns}
    assert {each.name.rpartition(MARK)[0] for each in triggers(dialect, wider) if each.name not in names} == {
        f"{table}_update" for table in EXCEPTED
    }
    of_table = " ON t" if dialect == "postgresql" else ""
    assert drop(dialect, "t", "name") == f"DROP TRIGGER name{of_table}"


@asynccontextmanager
async def one_row_each(database: Database, **facts: Any) -> AsyncGenerator[AsyncConnection]:
    """A transaction with a row in each table that only grows, whatever they refer to. Nothing stays of it."""
    async with database.engine.connect() as connection:
        if database.dialect == "sqlite":
            await connection.exec_driver_sql("BEGIN")
            await connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        else:
            await connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for name in APPEND_ONLY:
            row = _row(SQLModel.metadata.tables[name], facts)
            values = ", ".join(f":{column}" for column in row)
            await connection.execute(text(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({values})"), row)
        if database.dialect != "sqlite":
            await connection.exec_driver_sql("SET LOCAL session_replication_role = origin")
        yield connection
        await connection.rollback()


def _row(table: Table, facts: dict[str, Any]) -> dict[str, Any]:
    """Numbers grow with their columns, so that ends come after beginnings."""
    return {
        column.name: facts.get(column.name, _value(number, column))
        for number, column in enumerate(table.columns)
        if not column.nullable or column.name in facts
    }


def _value(number: int, column: Column[Any]) -> Any:
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, BigInteger | Integer):
        return number + 1
    return '{"a": 1}' if str(column.type) == "JSON" else f"of {column.name}"


async def said(connection: AsyncConnection, statement: str) -> str:
    """What the database says of a statement, which changes nothing in the end; empty where it is taken."""
    savepoint = await connection.begin_nested()
    try:
        done = await connection.execute(text(statement))
    except DBAPIError as error:
        return f"{error.orig}; {database_failure(error)}"
    else:
        assert done.rowcount != 0, f"there is nothing to change: {statement}"
        return ""
    finally:
        await savepoint.rollback()


def _edits(dialect: str, table: Table) -> Iterable[str]:
    for column in table.columns:
        value = ANOTHER.get(str(column.type), "77")
        yield f"UPDATE {table.name} SET {column.name} = {value}"
    yield f"DELETE FROM {table.name}"
    if dialect == "postgresql":
        yield f"TRUNCATE {table.name} CASCADE"
    else:
        yield f"INSERT OR REPLACE INTO {table.name} SELECT * FROM {table.name}"


async def test_no_column_is_changed_and_no_row_deleted(database: Database) -> None:
    """INV-25, INV-28: Each column of each table by itself, and the row; an operator is told why. Labels alone
    may go, as erasing takes them."""
    taken: list[str] = []
    async with one_row_each(database) as connection:
        for name in APPEND_ONLY:
            for statement in _edits(database.dialect, SQLModel.metadata.tables[name]):
                told = await said(connection, statement)
                if not told:
                    taken.append(statement)
                elif told.count(SAYS) != 2 or f"{name}: {SAYS}" not in told:
                    taken.append(f"{statement}: {told}")
    assert taken == ["UPDATE usage_event SET request_metadata = '{}'"]


Facts = Mapping[str, Any]
EXCEPTIONS: tuple[tuple[Facts, str, bool], ...] = (
    ({}, f"usage_event SET user_id = '{OPAQUE}'", True),
    ({}, f"charge SET user_id = '{OPAQUE}'", True),
    ({"user_id": OPAQUE}, f"usage_event SET user_id = '{OTHER}'", False),
    ({"user_id": OPAQUE}, f"charge SET user_id = '{OTHER}'", False),
    ({"user_id": OPAQUE}, "usage_event SET user_id = 'ann'", False),
    ({}, f"usage_event SET user_id = '{OPAQUE}', key_id = 'another'", False),
    ({}, f"charge SET user_id = '{OPAQUE}', model = 'another'", False),
    ({}, "usage_event SET request_metadata = '{\"a\": 2}'", False),
    ({}, "usage_event SET request_metadata = '{}', cost_nano = 0", False),
    ({"words_proof": PROOF}, "usage_event SET words_proof = substr(words_proof, 1, 65)", True),
    ({"words_proof": PROOF}, "usage_event SET words_proof = substr(words_proof, 1, 64)", False),
    ({"words_proof": PROOF}, "usage_event SET words_proof = ''", False),
    ({"words_proof": ""}, f"usage_event SET words_proof = '{PROOF}'", False),
    ({"words_proof": ""}, "usage_event SET trace_id = 'another'", False),
    ({"time_zone": ""}, "period_close SET time_zone = 'Asia/Tokyo'", False),
    ({"valid_from_ms": YEAR_2100_MS}, "price_version SET withdrawn_ms = 7", True),
    ({"valid_from_ms": YEAR_2100_MS}, "price_version SET withdrawn_ms = 7, valid_from_ms = 1", False),
    ({"valid_from_ms": YEAR_2100_MS}, "price_version SET valid_from_ms = valid_from_ms + 1", False),
    ({"valid_from_ms": YEAR_2100_MS, "withdrawn_ms": 7}, "price_version SET withdrawn_ms = 8", False),
    ({"valid_from_ms": YEAR_2100_MS, "withdrawn_ms": 7}, "price_version SET withdrawn_ms = NULL", False),
    ({"valid_from_ms": 1}, "price_version SET withdrawn_ms = 7", False),
    ({"valid_from_ms": -HOUR_MS}, "price_version SET withdrawn_ms = 7", False),  # of now
    ({"valid_from_ms": HOUR_MS}, "price_version SET withdrawn_ms = 7", True),
)


async def test_erasing_and_withdrawing_change_their_own_columns_only(database: Database) -> None:
    """INV-27: A version that has not begun is withdrawn once. Whom an id names is erased once, and labels."""
    for facts, change, taken in EXCEPTIONS:
        if abs(facts.get("valid_from_ms", 0)) == HOUR_MS:
            facts = {"valid_from_ms": now_ms() + facts["valid_from_ms"]}
        async with one_row_each(database, book_id="default", **facts) as connection:
            own = " WHERE version = 2" if change.startswith("price") else ""  # 1 is of the first start
            told = await said(connection, f"UPDATE {change}{own}")
        assert (not told, told.count(SAYS)) == ((True, 0) if taken else (False, 2)), (facts, change, told)


FOUND = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT tgname, tgenabled::text || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
    ),
}


async def guards(database: Database) -> dict[str, str]:
    """Their names, and what they do."""
    async with database.engine.connect() as connection:
        rows = await connection.execute(text(FOUND[database.dialect]))
        return {name: state for name, state in rows if MARK in name}


async def run(database: Database, *statements: str) -> None:
    """Past all guards of ours."""
    async with database.engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))


A_LINE = "INSERT INTO usage_line VALUES ('t1', 1, 'r1', 0, 'usage', 'm', 1, 0, 0, 'b', 1, '', NULL, 1, 1, '')"


async def test_what_was_taken_away_or_put_to_sleep_is_made_again(database: Database) -> None:
    """By the next migration, also where there is nothing else to do, and where a table was rebuilt."""
    whole = await guards(database)
    assert len(whole) == len(APPEND_ONLY) * (2 if database.dialect == "sqlite" else 3)
    name = next(each for each in whole if each.startswith("usage_line_update"))
    lost = [f"DROP TRIGGER {name}" + ("" if database.dialect == "sqlite" else " ON usage_line")]
    if database.dialect == "sqlite":
        lost += ["CREATE TABLE made AS SELECT * FROM wallet_use", "DROP TABLE wallet_use"]
        lost += ["ALTER TABLE made RENAME TO wallet_use"]
    else:
        lost += ["ALTER TABLE ledger_txn DISABLE TRIGGER USER"]
    before = f"CREATE TRIGGER usage_line_update{MARK}of_another_version BEFORE UPDATE ON usage_line "
    lost += [
        before + ("BEGIN SELECT 1; END" if database.dialect == "sqlite" else f"EXECUTE FUNCTION {FUNCTION}()")
    ]
    await run(database, *lost)
    assert await guards(database) != whole
    await migrate(str(database.engine.url.render_as_string(hide_password=False)))
    assert await guards(database) == whole


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_what_is_not_ours_stays_and_what_stands_is_not_made_again(database: Database) -> None:
    """An operator's own trigger, and those of another installation's tables. Who may only read may look."""
    of_another = f"usage_line_update{MARK}of_another"
    own = "BEFORE UPDATE ON usage_event FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    made = ["CREATE SCHEMA another", "CREATE TABLE another.usage_line (a int)"]
    made += [f"CREATE TRIGGER {of_another} BEFORE UPDATE ON another.usage_line EXECUTE FUNCTION {FUNCTION}()"]
    await run(database, *made, f"CREATE TRIGGER of_an_operator {own}")
    try:
        async with database.engine.begin() as connection:
            await connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            await connection.run_sync(guard)
        assert of_another in await guards(database)
    finally:
        await run(database, "DROP SCHEMA another CASCADE", "DROP TRIGGER of_an_operator ON usage_event")


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "lost",
    [
        f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RETURN coalesce(NEW, OLD); END $$",
        f"ALTER FUNCTION {FUNCTION}() OWNER TO pg_monitor",
    ],
)
async def test_what_the_triggers_call_is_ours(database: Database, lost: str) -> None:
    """Who owns it lifts them all by another one of its name, and each has the name that it had."""
    url = str(database.engine.url.render_as_string(hide_password=False))
    whole = await guards(database)
    await run(database, A_LINE, lost)
    await migrate(url)
    assert await guards(database) == whole
    with pytest.raises(DBAPIError, match=SAYS):
        await run(database, "UPDATE usage_line SET proof = 'y'")
    owner = f"SELECT rolname FROM pg_proc JOIN pg_roles r ON r.oid = proowner WHERE proname = '{FUNCTION}'"
    async with database.engine.connect() as connection:
        assert (await connection.execute(text(owner))).scalars().all() == ["postgres"]


async def test_a_migration_may_write_the_books_and_leaves_them_guarded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lifted for it, in its transaction: one that fails leaves them where they were."""
    url = str(database.engine.url.render_as_string(hide_password=False))
    whole = await guards(database)
    fails = [True, False]

    def upgrade(config: Any, revision: str) -> None:
        connection = config.attributes["connection"]
        connection.execute(text("UPDATE usage_line SET proof = ''"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'p0002'"))
        if fails.pop(0):
            raise StartupError("it fails")

    monkeypatch.setattr(command, "upgrade", upgrade)
    monkeypatch.setattr("core.sql.database._writes_books", lambda *_: True)
    monkeypatch.setattr("core.sql.database.schema_versions", lambda: ["p0002", "p0001"])
    await run(database, A_LINE)
    with pytest.raises(StartupError, match="it fails"):
        await migrate(url)
    assert await guards(database) == whole
    await migrate(url)
    assert await guards(database) == whole
    with pytest.raises(DBAPIError, match=SAYS):
        await run(database, "UPDATE usage_line SET proof = 'y'")


def test_a_version_says_that_it_writes_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one that is still to be run counts."""
    (tmp_path / "versions").mkdir()
    for number, says in enumerate(["", "WRITES_BOOKS = True", ""]):
        before = repr(f"{number - 1}") if number else "None"
        text = f"revision = '{number}'\ndown_revision = {before}\n{says}\n"
        (tmp_path / "versions" / f"v{number}.py").write_text(text)
    monkeypatch.setattr("core.sql.database.MIGRATIONS", tmp_path)
    assert [_writes_books(_alembic(), found) for found in (None, "0", "1", "2")] == [True, True, False, False]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_who_reads_the_books_for_long_holds_up_no_migration_that_leaves_them_alone(
    database: Database, later_version: Callable[[str], None]
) -> None:
    """Behind the lock for lifting a trigger, which waits for readers, posting and admitting would wait."""
    url = str(database.engine.url.render_as_string(hide_password=False))
    whole = await guards(database)
    later_version("def upgrade() -> None:\n    pass\n")
    async with database.snapshot() as reading:
        await (await reading.connection()).execute(text("SELECT * FROM usage_line"))
        await soon(migrate(url))
    assert await guards(database) == whole


async def test_an_older_release_leaves_a_newer_schema_and_its_guards_alone(database: Database) -> None:
    """And says so."""
    whole = await guards(database)
    await run(database, "UPDATE alembic_version SET version_num = 'p9999'")
    with pytest.raises(StartupError, match="newer release"):
        await migrate(str(database.engine.url.render_as_string(hide_password=False)))
    assert await guards(database) == whole


async def test_who_tampers_on_purpose_leaves_the_guards_standing(database: Database) -> None:
    """The one helper of tests and benches that lifts them."""
    whole = await guards(database)
    await run(database, A_LINE)
    await tamper(database, "UPDATE usage_line SET proof = 'y'")
    assert await guards(database) == whole
    with pytest.raises(DBAPIError, match=SAYS):
        await run(database, "UPDATE usage_line SET proof = 'z'")


def test_a_command_that_would_change_the_books_ends_with_one_line(
    sqlite_template: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a machine's clock is behind the database's, by which a version of prices has begun."""
    shutil.copy(sqlite_template, home / "parley.db")
    monkeypatch.setattr(withdrawals, "now_ms", lambda: -10 * withdrawals.NOTICE_MS)
    monkeypatch.setattr("sys.argv", ["parley", "prices", "withdraw", "default", "1", "--reason", "typo"])
    monkeypatch.setenv("PARLEY_HOME", str(home))
    with pytest.raises(SystemExit) as ended:
        in_one_line(parley)
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (1, 1)
    assert f"parley: the database refuses: {SAYS}" in said


async def test_adding_rows_costs_what_it_did(database: Database) -> None:
    """No trigger of ours is of an INSERT. SQLite sets one number more, for what INSERT OR REPLACE deletes."""
    if database.dialect != "sqlite":
        async with database.engine.connect() as connection:
            of_inserts = text("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgtype & 4 <> 0")
            assert [each for (each,) in await connection.execute(of_inserts) if MARK in each] == []
        return
    async with database.engine.connect() as connection:
        guarded = [await _steps(connection, name, "guarded") for name in APPEND_ONLY]
    async with unguarded(database) as connection:
        bare = [await _steps(connection, name, "bare") for name in APPEND_ONLY]
    for with_, without in zip(guarded, bare, strict=True):
        assert with_ - without <= Counter({"Integer": 1})
        assert without.total() > 10


async def _steps(connection: AsyncConnection, table: str, why: str) -> Counter[str]:
    """Those of SQLite's machine for an INSERT. `why` makes it another statement than before."""
    adding = f"EXPLAIN INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT DO NOTHING -- {why}"
    return Counter(step[1] for step in await connection.execute(text(adding)))
