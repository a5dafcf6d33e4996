"""Rows of every table of a schema, made from what the database itself says of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

Row = dict[str, Any]
Rows = dict[str, list[Row]]

NOT_FILLED = {"alembic_version"}
KINDS = ("full", "lean")
# What a check of the schema allows, or a migration reads.
VALUES: Mapping[str, Any] = {
    "alert_target.kind": "email",
    "api_key.scopes": ["chat"],
    "message.role": "user",
    "message.status": "ended",
    "outbox.state": "waiting",
    "proposal.state": "waiting",
    "wallet_grant.kind": "paid",
    # A chain's head and its only row.
    "seq": 1,
    # The later and the greater one of two that are compared.
    "end_ms": 1_000_000,
    "to_ms": 1_000_000,
    "updated_ms": 1_000_000,
    "amount_nano": 1_000_000,
}


class Filling:
    """Fills a database again and again, each time with rows of its own; tables that did not change since are
    not looked at again."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[object, sa.Table]] = {}

    def tables(self, connection: sa.Connection) -> list[sa.Table]:
        """All tables as they are, those that others refer to first."""
        shapes = _shapes(connection)
        changed = {name for name, shape in shapes.items() if self._shapes.get(name, ("",))[0] != shape}
        read = sa.MetaData()
        for name in sorted(changed):
            sa.Table(name, read, autoload_with=connection, resolve_fks=False)
        self._shapes = {
            name: (shape, read.tables[name] if name in changed else self._shapes[name][1])
            for name, shape in shapes.items()
        }
        return _parents_first([table for _, table in self._shapes.values()])

    def fill(self, connection: sa.Connection, generation: str) -> Rows:
        """Two rows in each table, which it returns: one has all that may be there, the other what must be."""
        filled: Rows = {}
        for number, table in enumerate(self.tables(connection)):
            rows = filled[table.name] = list[Row]()
            for kind in KINDS:
                row = dict(_values(table, f"{generation} {kind}", kind == "full", number))
                for key in table.foreign_key_constraints:
                    row |= _of_parent(
                        key, row, {of: each[len(rows)] for of, each in filled.items() if of != table.name}
                    )
                rows.append(row)
            connection.execute(sa.insert(table), rows)
        return filled

    def rows(self, connection: sa.Connection) -> Rows:
        """All there is."""
        return {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in self.tables(connection)
        }

    def keys(self, table: str) -> list[str]:
        """The columns that tell its rows apart."""
        return [column.name for column in self._shapes[table][1].primary_key.columns]


def _shapes(connection: sa.Connection) -> dict[str, object]:
    """By table something that differs once it has changed."""
    if connection.dialect.name == "sqlite":
        statement = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    else:
        statement = (
            "SELECT c.relname, string_agg(a.attname || a.attnotnull || a.atttypid, ',' ORDER BY a.attnum) "
            "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
            "WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY c.relname"
        )
    found = connection.execute(sa.text(statement))
    return {name: shape for name, shape in found if name not in NOT_FILLED}


def _parents_first(tables: list[sa.Table]) -> list[sa.Table]:
    done: dict[str, sa.Table] = {}
    while left := [table for table in sorted(tables, key=lambda each: each.name) if table.name not in done]:
        ready = [table for table in left if _parents(table) <= done.keys()]
        assert ready, f"tables that refer to one another: {left}"
        done |= {table.name: table for table in ready}
    return list(done.values())


def _parents(table: sa.Table) -> set[str]:
    return {_referred(key)[0] for key in table.foreign_key_constraints} - {table.name}


def _referred(key: sa.ForeignKeyConstraint) -> tuple[str, list[str]]:
    names = [element.target_fullname.rsplit(".", 1) for element in key.elements]
    return names[0][0], [column for _, column in names]


def _values(table: sa.Table, generation: str, full: bool, number: int) -> Iterator[tuple[str, Any]]:
    for column in table.columns:
        if column.nullable and not full:
            yield column.name, None
        else:
            value = VALUES.get(f"{table.name}.{column.name}", VALUES.get(column.name))
            yield column.name, value or _value(column, generation, full, number)


def _value(column: sa.Column[Any], generation: str, full: bool, number: int) -> Any:
    match column.type:
        case sa.Boolean():
            return full
        case sa.Integer():
            return number + len(column.name)
        case sa.Float() | sa.Numeric():
            return number + 0.5
        case sa.LargeBinary():
            return f"{column.name} {generation}".encode()
        case sa.JSON():
            return [80, 100]
        case sa.String():
            return f"{column.name} {generation}"
        case other:
            raise AssertionError(f"say here what {column} of {other!r} may be")


def _of_parent(key: sa.ForeignKeyConstraint, row: Row, parents: Mapping[str, Row]) -> Row:
    """What the row must have to refer to its generation's. A row that may refer to its like does not."""
    parent, columns = _referred(key)
    if any(row[column.name] is None for column in key.columns):
        return {}
    if key.table.name == parent:
        return {column.name: None for column in key.columns if column.nullable}
    return {column.name: parents[parent][of] for column, of in zip(key.columns, columns, strict=True)}
