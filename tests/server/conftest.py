"""Fixtures of the gateway's tests."""

from collections.abc import AsyncGenerator, Generator

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from tests.server.playbook import all_effects_are_expected
from tests.server.site import Site, running_site
from tests.support.redis import Redis
from tests.support.watch import StubClock, watch_in_hand

__all__ = ["all_effects_are_expected"]


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway with one tenant and no worker."""
    async with running_site(settings, sqlite, redis) as site:
        yield site


@pytest.fixture
def watch() -> Generator[StubClock]:
    """The clock of what is tested, in the test's hand."""
    with watch_in_hand() as watch:
        yield watch
