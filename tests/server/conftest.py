"""Fixtures of the gateway's tests."""

from collections.abc import AsyncGenerator

import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.server.playbook import all_effects_are_expected
from tests.server.site import Site, running_site

__all__ = ["all_effects_are_expected"]


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway with one tenant and no worker."""
    async with running_site(settings, sqlite, redis) as site:
        yield site
