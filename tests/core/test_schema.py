"""The schema's versions: the first one is what the tables say, a later one changes it, an older release's
database is refused. On SQLite and on Postgres."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel

from billing.audit.compare import compare_states
from billing.audit.verify import verify_log
from billing.tables.tenants import PLATFORM
from chaos.tampering.unguarded import tamper
from core.errors import StartupError
from core.sql.append_only import APPEND_ONLY, MARK, SAYS
from core.sql.database import (
    Database,
    _alembic,
    database_url,
    migrate,
    require_schema,
    revision_of,
    schema_versions,
    shown_url,
)
from core.sql.schema_origin import READ, refuse_former, text_of
from tests.core.all_tables import TABLES_OF_ALL_PACKAGES

Shape = dict[str, dict[str, Any]]
OF_EXPRESSIONS = (
    "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :table "
    "AND (sql LIKE '%lower(%' OR sql LIKE '% / %')"
)

# SQLAlchemy reflects no index of an expression from SQLite: `_shape` reads its text.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index"),
    pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index"),
]


async def test_the_migrated_schema_is_the_one_that_the_tables_describe(database: Database) -> None:
    """A column added to a table without a migration, or the other way round, fails here: each column with its
    type, place and default, each key, check and index. A later column is a table's last, and says by
    `sa_column_kwargs` the `server_default` that its version gives to rows there are."""
    assert len(TABLES_OF_ALL_PACKAGES) > 5  # they are imported

    async with database.engine.connect() as connection:
        assert await connection.run_sync(_differences) == []
        migrated = await connection.run_sync(_shape)
        described = await connection.run_sync(_described)
    del migrated["alembic_version"]
    assert set(migrated) == set(described)
    for table, shape in described.items():
        assert migrated[table] == shape


def _differences(connection: Connection) -> list[object]:
    opts = {"compare_server_default": True, "include_object": _compares}
    context = MigrationContext.configure(connection, opts=opts)
    return list(compare_metadata(context, SQLModel.metadata))


def _compares(thing: Any, name: str | None, kind: str, *_: object) -> bool:
    """False for indexes of expressions, of which alembic knows another text: `_shape` compares them."""
    return kind != "index" or not str(name).endswith(("_lower_name", "_event_cost"))


def _described(connection: Connection) -> Shape:
    """The shape of tables that SQLModel makes by itself: in another place, which is left as it was."""
    if connection.dialect.name == "sqlite":
        with create_engine("sqlite://").connect() as other:
            SQLModel.metadata.create_all(other)
            return _shape(other)
    connection.execute(text("CREATE SCHEMA described"))
    connection.execute(text("SET LOCAL search_path TO described"))
    SQLModel.metadata.create_all(connection, checkfirst=False)
    try:
        return _shape(connection, "described")
    finally:
        connection.rollback()


def _shape(connection: Connection, schema: str | None = None) -> Shape:
    """By table all that the database says of it."""
    looked, shapes = inspect(connection), Shape()
    for table in looked.get_table_names(schema):
        columns = looked.get_columns(table, schema)
        foreign, indexes = looked.get_foreign_keys(table, schema), looked.get_indexes(table, schema)
        shapes[table] = {
            "columns": [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in columns],
            "key": looked.get_pk_constraint(table, schema)["constrained_columns"],
            "foreign keys": _sorted([{**each, "referred_schema": None} for each in foreign]),
            "uniques": _sorted(looked.get_unique_constraints(table, schema)),
            "checks": _sorted(looked.get_check_constraints(table, schema)),
            "indexes": _sorted({**each, "dialect_options": _options(each)} for each in indexes),
            "indexes of expressions": _of_expressions(connection, table),
        }
    return shapes


def _of_expressions(connection: Connection, table: str) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []  # they stand among the indexes
    return sorted(connection.execute(text(OF_EXPRESSIONS), {"table": table}).scalars())


def _options(index: Any) -> list[tuple[str, str]]:
    """Of which rows it is, as text."""
    return [(name, str(value)) for name, value in index.get("dialect_options", {}).items()]


def _sorted(facts: Any) -> list[str]:
    return sorted(str(sorted((name, str(value)) for name, value in each.items())) for each in facts)


async def test_each_installation_begins_with_the_default_prices(database: Database) -> None:
    """And with nothing else but what the audit log says of them, by which an edit of them is found."""
    async with database.engine.connect() as connection:
        rows = {
            name: [dict(row) for row in (await connection.execute(table.select())).mappings()]
            for name, table in SQLModel.metadata.tables.items()
        }
        triggers = await connection.run_sync(_triggers)
    assert {name for name, found in rows.items() if found} == {
        *("price_book", "price_version", "price", "audit_head", "audit_log", "audit_state")
    }
    of_book = {"id": "default", "tenant_id": PLATFORM, "parent_id": None, "name": "Default"}
    assert rows["price_book"] == [{**of_book, "currency": "usd", "created_ms": 0}]
    of_version = {"book_id": "default", "version": 1, "tenant_id": PLATFORM}
    assert rows["price_version"] == [
        {**of_version, "valid_from_ms": 0, "created_ms": 0, "withdrawn_ms": None}
    ]
    nano = {"input_nano": 100_000_000, "cached_input_nano": 25_000_000, "output_nano": 400_000_000}
    assert rows["price"] == [{**of_version, "model": "*", **nano, "request_nano": 0}]
    assert triggers == set(APPEND_ONLY)
    states = await compare_states(database, PLATFORM)
    assert (states.faults, states.rows) == ([], 3)
    assert (await verify_log(database, PLATFORM)).faults == []
    await tamper(database, "UPDATE price SET output_nano = 1")
    (fault,) = (await compare_states(database, PLATFORM)).faults
    assert fault == "price default/1/* was changed past the commands: output_nano 400000000 → 1"


def _triggers(connection: Connection) -> set[str]:
    """The tables that have some of ours."""
    if connection.dialect.name == "sqlite":
        statement = "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'"
    else:
        statement = "SELECT relname, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
    return {table for table, name in connection.execute(text(statement)) if MARK in name}


def test_the_versions_are_those_of_the_files() -> None:
    """Named by number: what alembic finds by reading each of them, in its order. None has a revision that a
    database of before 0.1.0 has."""
    script = ScriptDirectory.from_config(_alembic())
    assert schema_versions() == [each.revision for each in script.walk_revisions()]
    assert schema_versions()[-1] == "p0001"


LATER = """
WRITES_BOOKS = True


def upgrade() -> None:
    op.add_column("price_book", sa.Column("note", sa.String(), nullable=False, server_default=""))
    op.execute("UPDATE price SET output_nano = output_nano + 1")
"""


async def test_a_later_version_changes_a_database_and_keeps_its_rows(
    empty_url: str, later_version: Callable[[str], None]
) -> None:
    """Until then no process starts with it. Books that it wrote are guarded again afterwards."""
    await migrate(empty_url)
    later_version(LATER)
    database = Database(empty_url)
    try:
        with pytest.raises(StartupError, match="not up to date: run `parley db migrate`"):
            await require_schema(database)
        for _ in range(2):  # the second time there is nothing left to do
            await migrate(empty_url)
            await require_schema(database)
            async with database.engine.connect() as connection:
                books = (await connection.execute(text("SELECT id, note FROM price_book"))).all()
                assert [tuple(row) for row in books] == [("default", "")]
                prices = "SELECT output_nano FROM price"
                assert (await connection.execute(text(prices))).scalars().all() == [400_000_001]
                with pytest.raises(DBAPIError, match=SAYS):
                    await connection.execute(text("UPDATE price SET output_nano = 1"))
    finally:
        await database.close()


async def test_a_newer_schema_is_a_deploy_under_way(sqlite: Database) -> None:
    """Processes of this release go on with it."""
    await require_schema(sqlite)
    async with sqlite.engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'p9999'"))
    await require_schema(sqlite)
    await revision_of(sqlite)


@pytest.mark.parametrize("revision", ["0033", "0001"])
async def test_a_database_of_before_is_refused_with_one_line(
    empty_url: str, home: Path, revision: str
) -> None:
    """By whoever migrates and by each process that starts: which it is, without its password, and what to do.
    Nothing in it is changed."""
    (home / "a folder").mkdir()
    database = Database(empty_url)
    async with database.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        await connection.execute(text(f"INSERT INTO alembic_version VALUES ('{revision}')"))
    for refuses in (migrate(empty_url), require_schema(database), revision_of(database)):
        with pytest.raises(StartupError) as raised:
            await refuses
        said = str(raised.value)
        assert f"was made before 0.1.0 (schema {revision})" in said
        assert "PARLEY_DATABASE_URL" in said
        assert database.engine.url.database is not None
        assert database.engine.url.database in said
        assert "\n" not in said
    async with database.engine.connect() as connection:
        assert await connection.run_sync(lambda each: inspect(each).get_table_names()) == ["alembic_version"]
    await database.close()


NOT_THIS = "another version of Parley under development"


@pytest.mark.parametrize(
    "change",
    ["UPDATE alembic_version SET made_from = 'x'", "ALTER TABLE alembic_version DROP COLUMN made_from"],
    ids=["made otherwise", "of before this was kept"],
)
async def test_a_schema_of_another_state_of_the_code_is_refused_with_one_line(
    empty_url: str, change: str
) -> None:
    """The first version is edited in place until it is released, and a table or column that is not there
    would be found in mid-request. Whoever migrates and each process that starts says so; nothing is
    changed."""
    await migrate(empty_url)
    database = Database(empty_url)
    async with database.engine.begin() as connection:
        await connection.execute(text(change))
        before = (await connection.execute(READ)).mappings().all()
    for refuses in (migrate(empty_url), require_schema(database)):
        with pytest.raises(StartupError, match=f"{NOT_THIS}.*PARLEY_HOME.*Nothing was changed") as raised:
            await refuses
        assert "\n" not in str(raised.value)
    assert await revision_of(database) == "p0001"
    async with database.engine.connect() as connection:
        assert (await connection.execute(READ)).mappings().all() == before
    await database.close()


async def test_an_older_version_is_told_apart_too(
    empty_url: str, later_version: Callable[[str], None]
) -> None:
    """Before a later version is run on tables that it does not expect."""
    await migrate(empty_url)
    later_version(LATER)
    database = Database(empty_url)
    async with database.engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET made_from = 'x'"))
    for refuses in (migrate(empty_url), require_schema(database)):
        with pytest.raises(StartupError, match=NOT_THIS):
            await refuses
    await database.close()


def test_how_a_version_is_written_does_not_count(tmp_path: Path) -> None:
    """Comments, docstrings and layout are no other schema; a column, and a later version, are."""
    folder = tmp_path / "versions"
    folder.mkdir()
    texts = (
        'def a():\n    return [1, "two"]\n',
        '"""A\n\nb."""\n# why\ndef a():\n    """It."""\n    return [\n        1,\n        "two",\n    ]\n',
        'def a():\n    return [1, "three"]\n',
    )
    found = list[str]()
    for each in texts:
        (folder / "v0001_first.py").write_text(each)
        text_of.cache_clear()
        found.append(text_of(tmp_path, "p0001"))
    (folder / "v0002_later.py").write_text("")
    text_of.cache_clear()
    assert found[0] == found[1] != found[2] == text_of(tmp_path, "p0001") != text_of(tmp_path, "p0002")


def test_who_is_refused_is_shown_no_password() -> None:
    """Nor what else of the URL may be secret."""
    url = database_url("postgresql+asyncpg://me:hunter2@there:1/parley?sslpassword=hunter3")
    with pytest.raises(
        StartupError, match=r"postgresql\+asyncpg://me:\*\*\*@there:1/parley was made"
    ) as raised:
        refuse_former("0033", shown_url(url))
    assert "hunter" not in str(raised.value)
