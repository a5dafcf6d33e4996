"""Fixtures of the tests that attack."""

from collections.abc import AsyncGenerator, Generator

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from tests.security.sinks import Sinks, keep_in_memory, opened_sinks, spans
from tests.server.http_site import HttpSite, http_site
from tests.support.redis import Redis


@pytest.fixture
async def site(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[HttpSite]:
    """A gateway's HTTP routes with one tenant and its service key."""
    async with http_site(sqlite, redis, settings) as site:
        yield site


@pytest.fixture(scope="session")
def _traced() -> None:  # pyright: ignore[reportUnusedFunction]
    """Spans and metrics are kept."""
    keep_in_memory()


@pytest.fixture
def sinks(settings: Settings, _traced: None) -> Generator[Sinks]:
    """All that comes out beside answers."""
    spans.clear()
    with opened_sinks(settings) as opened:
        yield opened
