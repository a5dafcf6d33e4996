"""Fixtures of the tests that attack."""

from collections.abc import AsyncGenerator, Generator

import pytest
from redis.asyncio import Redis

from core.database import Database
from core.settings import Settings
from tests.security.sinks import Sinks, opened_sinks, spans, trace_into_memory
from tests.server.http_site import HttpSite, http_site


@pytest.fixture
async def site(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[HttpSite]:
    """A gateway's HTTP routes with one tenant and its service key."""
    async with http_site(sqlite, redis, settings) as site:
        yield site


@pytest.fixture(scope="session")
def _traced() -> None:  # pyright: ignore[reportUnusedFunction]
    """Spans are kept."""
    trace_into_memory()


@pytest.fixture
def sinks(settings: Settings, _traced: None) -> Generator[Sinks]:
    """All that comes out beside answers."""
    spans.clear()
    with opened_sinks(settings) as opened:
        yield opened
