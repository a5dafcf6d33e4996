"""Fixtures of the tests with several gateways."""

from collections.abc import AsyncGenerator

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from tests.support.gateways import RunningGateways, running_gateways
from tests.support.redis import Redis

SLOTS = 160


@pytest.fixture
async def pair(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[RunningGateways]:
    """Two gateways on one Valkey and one SQLite file, with room for SLOTS requests at a worker."""
    roomy = settings.model_copy(update={"worker_slots": SLOTS})
    async with running_gateways(roomy, sqlite, redis) as fleet:
        yield fleet
