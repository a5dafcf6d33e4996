"""What a pool's own processes write where the fleet reads: it holds up no other pool, and resizes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from redis.exceptions import NoPermissionError

from billing.pools import create_pool
from billing.tables.pools import PoolRow
from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import PoolQueue
from engine.fleet.controller import FleetController
from engine.fleet.local_hands import LocalHands
from engine.fleet.states import read_states
from engine.node.reports import NodeReport, PoolNodes, WorkerOrder, WorkerOrderKind
from tests.support.redis import Redis
from tests.support.users import make_user, url_of

TAG = "{p:bad}"

Plant = Callable[[Any], Awaitable[None]]


def reports(**said: object) -> Plant:
    """A report of the bad pool's supervisor."""

    async def plant(redis: Any) -> None:
        facts = {"supervisor": "s", "node": "elsewhere", "pid": 1, "slots": []} | said
        await redis.zadd(f"{TAG}supervisors", {"s": now_ms() + 60_000})
        await redis.set(f"{TAG}supervisor:s", msgspec.json.encode(facts))

    return plant


def another_type(key: str) -> Plant:
    """A key of another type than ours."""

    async def plant(redis: Any) -> None:
        await reports()(redis)
        await redis.delete(f"{TAG}{key}")
        await redis.rpush(f"{TAG}{key}", "x")

    return plant


@pytest.mark.parametrize(
    "plant",
    [
        reports(node="n", pid=1 << 70),
        reports(workers=10**15),
        reports(workers=1 << 70),
        reports(workers=-5_000),
        another_type("supervisors"),
        another_type("supervisor:s"),
        another_type("deadlines"),
    ],
)
async def test_what_one_pool_reports_holds_up_no_other(
    redis: Redis, sqlite: Database, settings: Settings, plant: Plant
):
    """Both are looked at, and what is seen is stored, within bounds."""
    for pool in ("bad", "good"):
        row = PoolRow(pool=pool, model=f"of-{pool}", version="1", workers=1, labels={"x": "y"}, made_ms=1)
        await create_pool(sqlite, row)
    await plant(redis)
    here = settings.model_copy(update={"node": "n", "fleet_workers_max": 4})
    controller = FleetController(here, sqlite, LocalHands(here, sqlite, redis, one_user=True))
    await controller.round(now_ms())
    rows = await read_states(sqlite)
    assert [row.pool for row in rows] == ["bad", "good"]
    assert all(0 <= row.elsewhere <= 1_024 and row.why.isprintable() for row in rows)


async def test_a_worker_resizes_no_supervisor(redis: Redis, redis_url: str, settings: Settings):
    """It leaves an order for its own pool's supervisor where it takes its own: that is passed over."""
    nodes = PoolNodes(PoolQueue(redis, "default", settings))
    await nodes.report(NodeReport("s1", "n", 1, [], workers=1))
    worker: Any = Redis.from_url(url_of(redis_url, await make_user(redis, WORKER)))
    await worker.rpush("{p:default}orders:s1", "resize 64")
    with pytest.raises(NoPermissionError):
        await worker.rpush("{p:default}sizes:s1", "resize 64")
    await worker.aclose()
    assert await nodes.next_order("s1", 1, resizes=True) is None
    await nodes.resize("s1", 2)
    assert await nodes.next_order("s1", 1, resizes=True) == WorkerOrder(WorkerOrderKind.RESIZE, "2")
