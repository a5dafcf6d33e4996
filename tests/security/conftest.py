"""Fixtures of the tests that attack."""

from collections.abc import AsyncGenerator

import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.server.http_site import HttpSite, http_site


@pytest.fixture
async def site(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[HttpSite]:
    """A gateway's HTTP routes with one tenant and its service key."""
    async with http_site(sqlite, redis, settings) as site:
        yield site
