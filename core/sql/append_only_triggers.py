"""Makes and drops the triggers of core/sql/append_only.py, in the caller's transaction."""

from collections.abc import Iterable

from sqlalchemy import Connection, inspect, text

from core.sql.append_only import BODY, DROPPED_FIRST, EXCEPTED, MADE_FIRST, MARK, Trigger, drop, triggers

_FOUND = {
    "sqlite": "SELECT tbl_name, name, 1 FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT relname, tgname, "
        "tgenabled = 'O' AND prosrc = :body AND pg_has_role(proowner, relowner, 'MEMBER') "
        "FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid "
        "WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid)"
    ),
}


def guard(connection: Connection) -> None:
    """Bring all triggers in line with this code. Writes nothing where they are, so that a user who does not
    own the tables can check."""
    wanted = {(each.table, each.name): each for each in _wanted(connection)}
    found = _found(connection)
    kept = {key for key, wakes in found.items() if key in wanted and wakes}
    _drop(connection, found.keys() - kept)
    if not kept and connection.dialect.name != "sqlite":
        connection.exec_driver_sql(DROPPED_FIRST)
    _make(connection, [each for key, each in wanted.items() if key not in kept])


def unguard(connection: Connection) -> None:
    """Drop all triggers, for a migration that may change the books, until `guard`."""
    _drop(connection, _found(connection))


def _wanted(connection: Connection) -> list[Trigger]:
    looked = inspect(connection)
    columns = {table: [each["name"] for each in looked.get_columns(table)] for table in EXCEPTED}
    return triggers(connection.dialect.name, columns)


def _found(connection: Connection) -> dict[tuple[str, str], bool]:
    """Triggers by table and name; False: disabled, or its function differs or has another owner."""
    dialect = connection.dialect.name
    rows = connection.execute(text(_FOUND[dialect]), {} if dialect == "sqlite" else {"body": BODY})
    return {(table, name): bool(wakes) for table, name, wakes in rows if MARK in name}


def _drop(connection: Connection, found: Iterable[tuple[str, str]]) -> None:
    for table, name in found:
        connection.exec_driver_sql(drop(connection.dialect.name, table, name))


def _make(connection: Connection, missing: list[Trigger]) -> None:
    if missing and connection.dialect.name != "sqlite":
        connection.exec_driver_sql(MADE_FIRST)
    for each in missing:
        connection.exec_driver_sql(each.sql)
