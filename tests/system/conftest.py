"""Fixtures of the tests with several gateways."""

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.helpers.gateways import Fleet, running_gateways

SLOTS = 160


@pytest.fixture
async def sqlite(sqlite_template: Path, home: Path) -> AsyncGenerator[Database]:
    """A migrated, empty SQLite database at the home's default place."""
    shutil.copy(sqlite_template, home / "parley.db")
    opened = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    yield opened
    await opened.close()


@pytest.fixture
async def pair(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Fleet]:
    """Two gateways on one Valkey and one SQLite file, with room for SLOTS requests at a worker."""
    roomy = settings.model_copy(update={"worker_slots": SLOTS})
    async with running_gateways(roomy, sqlite, redis) as fleet:
        yield fleet
