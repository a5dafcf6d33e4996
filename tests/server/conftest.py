"""Fixtures of the gateway's tests."""

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.server.site import Site, running_site


@pytest.fixture
async def sqlite(sqlite_template: Path, home: Path) -> AsyncGenerator[Database]:
    """A migrated, empty SQLite database at the home's default place."""
    shutil.copy(sqlite_template, home / "parley.db")
    opened = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    yield opened
    await opened.close()


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway with one tenant and no worker."""
    async with running_site(settings, sqlite, redis) as site:
        yield site
