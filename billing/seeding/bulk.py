"""Rows written in their tables: by COPY on Postgres, which takes a tenth of an INSERT's time."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import msgspec
from sqlalchemy import JSON, Table, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import SQLModel

from core.sql.database import Database, TableBase

ROWS_AT_ONCE = 5_000


async def write_rows(db: Database, rows: Iterable[TableBase]) -> None:
    """Insert rows of any tables in one transaction, in the order that foreign keys need."""
    by_table: dict[str, list[TableBase]] = {}
    for row in rows:
        by_table.setdefault(str(row.__tablename__), []).append(row)
    async with db.engine.begin() as connection:
        for table in SQLModel.metadata.sorted_tables:
            if found := by_table.get(table.name):
                await _write(connection, table, found)


async def write_records(
    db: Database, rows: Mapping[type[SQLModel], Sequence[TableBase] | Sequence[msgspec.Struct]]
) -> None:
    """Insert rows of these tables in one transaction, in this order: objects of the table, or plain structs
    with its columns."""
    async with db.engine.begin() as connection:
        for table, found in rows.items():
            if found:
                name = cast(Any, table).__tablename__
                await _write(connection, SQLModel.metadata.tables[name], found)


async def refresh_statistics(db: Database, vacuum: bool = False) -> None:
    """Let Postgres' planner know what was written, and with `vacuum` what all readers see; it would by itself
    within minutes."""
    if db.dialect == "sqlite":
        return
    async with db.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql("VACUUM ANALYZE" if vacuum else "ANALYZE")


async def _write(
    connection: AsyncConnection, table: Table, rows: Sequence[TableBase] | Sequence[msgspec.Struct]
) -> None:
    if connection.dialect.name == "sqlite":
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = [_columns(row) for row in rows[first : first + ROWS_AT_ONCE]]
            await connection.execute(insert(table), part)
        return
    names = [column.name for column in table.columns]
    values = attrgetter(*names)
    texts = [number for number, column in enumerate(table.columns) if isinstance(column.type, JSON)]
    driver: Any = (await connection.get_raw_connection()).driver_connection
    records = [_encoded(values(row), texts) for row in rows]
    await driver.copy_records_to_table(table.name, records=records, columns=names)


def _columns(row: TableBase | msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(row) if isinstance(row, msgspec.Struct) else row.model_dump()


def _encoded(values: tuple[Any, ...], texts: Sequence[int]) -> tuple[Any, ...]:
    """The values with JSON as text. Pure."""
    if not texts:
        return values
    found = list(values)
    for number in texts:
        found[number] = msgspec.json.encode(found[number]).decode()
    return tuple(found)
