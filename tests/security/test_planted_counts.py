"""Counts, sizes and places that a taken-over worker writes: they are believed as far as what is there bears
them out, and hide nobody's requests."""

from typing import Any

import pytest

from billing.api import Quota
from core.configuration.settings import Settings
from engine.lifecycle.stale_admissions import release_stale_admissions
from engine.queue.client import PoolQueue
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis

CROWD = 10_000
LIVE, RQ = "{t:t1}live", "{t:t1}rq:"


@pytest.mark.parametrize("state", [None, "open", "ended", "other type", "no name"])
async def test_what_a_worker_planted_hides_no_stale_admission(
    state: str | None, redis: Redis, settings: Settings
):
    """However many stand before it; what has no open request is taken out."""
    client: Any = redis
    quota, queue = Quota(redis, settings), PoolQueue(redis, "A", settings)
    await quota.admit(an_admission(id="r1", now_ms=1_000))
    names: list[Any] = [b"\xff%d" % at if state == "no name" else f"x{at}" for at in range(CROWD)]
    await client.zadd(LIVE, dict.fromkeys(names, 1))
    if state in ("open", "ended"):
        fields = {"state": state, "pool": "nowhere", "admitted": "1", "deadline": "1", "hold": "0"}
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.hset(f"{RQ}{name}", mapping=fields)
        await pipeline.execute()
    elif state == "other type":
        await client.mset({f"{RQ}{name}": "x" for name in names})
    assert await release_stale_admissions(queue, quota) >= 1
    assert await client.hget(f"{RQ}r1", "state") == b"released"
    assert await client.zcard(LIVE) == 0


async def test_what_is_open_by_then_is_not_taken_out(redis: Redis, settings: Settings):
    """An id that had no request when it was looked at, and was admitted meanwhile."""
    quota: Any = Quota(redis, settings)
    await quota.admit(an_admission(id="r1"))
    await quota._take_out("t1", ["r1"])
    assert [hold.id for hold in await quota.holds("t1")] == ["r1"]
