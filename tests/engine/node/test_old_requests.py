"""What pins an old version is ended once its time is over, and nothing else."""

from pathlib import Path

import pytest

from billing.api import Quota
from billing.pools import create_pool
from billing.tables.pools import PoolRow
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.models.registry import ModelRecord, save
from engine.node.old_requests import OldRequests
from tests.engine.builders import FINGERPRINT, TENANT
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis

UNTIL_MS = 9_000


@pytest.mark.parametrize(("until_ms", "ended"), [(UNTIL_MS, True), (UNTIL_MS + 1, False), (0, False)])
async def test_old_requests_end_at_their_time(
    redis: Redis, sqlite: Database, settings: Settings, until_ms: int, ended: bool
):
    """Waiting and parked ones as `engine_lost`, which may be sent again; those of the version in use stay."""
    crew = PoolWorkers(redis, settings)
    for version, fingerprint in (("1", FINGERPRINT), ("2", "f2")):
        await save(sqlite, ModelRecord("tiny", version, fingerprint, Path("/m"), 4096), {}, 1)
    about = {"model": "tiny", "version": "2", "workers": 1, "labels": {}, "made_ms": 1}
    await create_pool(sqlite, PoolRow(pool="default", old_until_ms=until_ms, **about))  # pyright: ignore[reportArgumentType]
    old, parked, new = [await crew.send(fingerprint=each) for each in (FINGERPRINT, FINGERPRINT, "f2")]
    await crew.queue.park(TENANT, parked)
    of = OldRequests(settings, crew.queue, Quota(redis, settings))
    assert await of.round(sqlite, UNTIL_MS) == (2 if ended else 0)
    if ended:
        ends = [await crew.ended(each) for each in (old, parked)]
        assert [(end["reason"], end["code"]) for end in ends] == [("error", "engine_lost")] * 2
    assert "end" not in await crew.kinds(new)
    assert await of.round(sqlite, UNTIL_MS) == 0
