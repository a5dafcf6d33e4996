"""Databases of older versions."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic import command
from sqlalchemy import Connection, text

from chaos.installation import postgres
from core.sql.database import Database, _alembic  # pyright: ignore[reportPrivateUsage]

Row = Mapping[str, Any]


def upgrade(connection: Connection, revision: str) -> None:
    """Bring an older schema to a newer one."""
    config = _alembic()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


class Old:
    """A database of an older version."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)

    async def at(self, revision: str) -> None:
        """Make it one of this revision."""

        async with self.database.engine.begin() as connection:
            await connection.run_sync(upgrade, revision)

    async def add(self, table: str, *rows: Row) -> None:
        """Insert rows as an older version did."""
        async with self.database.engine.begin() as connection:
            for row in rows:
                names = ", ".join(row)
                values = ", ".join(f":{name}" for name in row)
                await connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), dict(row))

    async def change(self, statement: str) -> None:
        """Run a statement."""
        async with self.database.engine.begin() as connection:
            await connection.execute(text(statement))

    async def read(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows as they are now."""
        async with self.database.engine.connect() as connection:
            return [tuple(row) for row in await connection.execute(text(statement))]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, home: Path) -> Generator[str]:
    """The URL of a database that was never migrated; a file's folder is not there yet."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{home / 'a folder' / 'parley.db'}"
        return
    folder: Path = request.getfixturevalue("postgres_folder")
    name = f"test_{uuid4().hex}"
    asyncio.run(postgres.execute(folder, f"CREATE DATABASE {name}"))
    yield postgres.url(folder, name)
    asyncio.run(postgres.execute(folder, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def old(empty_url: str, home: Path) -> AsyncGenerator[Old]:
    """A database that a test brings to an older version."""
    (home / "a folder").mkdir()
    made = Old(empty_url)
    yield made
    await made.database.close()
