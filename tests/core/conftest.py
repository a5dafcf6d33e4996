"""Databases that were never migrated, and versions of the schema that are still to come."""

import asyncio
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from uuid import uuid4

import pytest

from chaos.installation import postgres
from core.sql import database


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
def later_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Call it with the text of a version p0002, which this release knows from then on."""

    def add(text: str) -> None:
        folder = tmp_path / "migrations"
        shutil.copytree(database.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / "v0002_later.py").write_text(
            "import sqlalchemy as sa\nfrom alembic import op\n\n"
            f"revision = 'p0002'\ndown_revision = 'p0001'\n{text}"
        )
        monkeypatch.setattr(database, "MIGRATIONS", folder)
        monkeypatch.setattr(database, "schema_versions", database.schema_versions.__wrapped__)

    return add
