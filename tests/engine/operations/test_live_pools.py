"""All pools at one moment: workers, what waits, who runs what; also where others wrote nonsense."""

from typing import Any

import pytest

from core.configuration.settings import Settings
from engine.node.reports import NodeReport, PoolNodes, WorkerOrderKind, WorkerProcessState, WorkerReport
from engine.operations.live_pools import LiveClass, LivePool, read_live_pools
from engine.queue import redis_keys
from engine.queue.types import ClaimOffer
from engine.request import PriorityClass
from tests.engine.builders import FINGERPRINT, Pool, request
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000
OFFER = ClaimOffer(FINGERPRINT, slots=2, kv_tokens=100_000, prefill_tokens=10_000)


def a_pool(redis: Any, name: str = "default") -> Pool:
    """A pool by the server's clock."""
    return Pool(redis, name=name, clock=None)  # pyright: ignore[reportArgumentType]


async def seen(pool: Pool) -> LivePool:
    """What is seen of it."""
    _, (found,) = await read_live_pools(pool.queue.redis, pool.queue.settings, [pool.name])
    return found


async def busy(pool: Pool) -> None:
    """One worker holds two requests of two tenants, and one of each class waits."""
    await pool.queue.register(
        "w1", FINGERPRINT, {"kv_tokens": 100_000, "slots": 2, "version": "7", "kv_usage": 0.5}
    )
    for tenant in ("t1", "t2"):
        await pool.queue.enqueue(request(tenant=tenant, deadline_ms=FAR_MS))
    await pool.queue.claim("w1", 1, OFFER)
    for priority in PriorityClass:
        await pool.queue.enqueue(request(priority=priority, deadline_ms=FAR_MS))


async def test_workers_and_lines_are_seen(redis: Redis) -> None:
    """Of a worker what it and its supervisor say; one that only the supervisor knows, too."""
    pool = a_pool(redis)
    await busy(pool)
    states = (WorkerProcessState.READY, WorkerProcessState.STARTING)
    slots = [WorkerReport(at, f"w{at + 1}", 7, state, why="it is cold") for at, state in enumerate(states)]
    await PoolNodes(pool.queue).report(NodeReport("s1", "n1", 1, slots))
    found = await seen(pool)
    assert [(each.row.worker, each.row.state, each.slots, each.version) for each in found.workers] == [
        ("w1", "ready", 2, "7"),
        ("w2", "starting", None, ""),
    ]
    assert [each.waiting for each in found.classes.values()] == [1, 1, 1]
    assert found.classes[PriorityClass.INTERACTIVE].ready == 1
    assert found.running == {"t1": 1, "t2": 1}
    await PoolNodes(pool.queue).order("w1", WorkerOrderKind.DRAIN, "w1")
    assert (await seen(pool)).workers[0].row.state == "draining"


async def test_an_empty_pool_is_empty(redis: Redis) -> None:
    """As one that was announced, and never used."""
    assert await seen(a_pool(redis, "new")) == LivePool(
        "new", [], {each: LiveClass() for each in PriorityClass}
    )


async def test_nonsense_is_passed_over(redis: Redis) -> None:
    """Whatever another process wrote into the pool's keys, what can be read is seen."""
    pool = a_pool(redis)
    await busy(pool)
    worker = redis_keys.worker
    await redis.zadd(redis_keys.workers("default"), {"w2": 1, "w3": float("inf"), b"\xff": 5, "w4": 2})
    await redis.hset(worker("default", "w2"), mapping={"info": b"no json", "fingerprint": "x"})
    await redis.hset(worker("default", "w3"), mapping={"info": b"{}", "fingerprint": "x"})
    await redis.lpush(worker("default", "w4"), "x")
    await redis.zadd("{p:default}supervisors", {"s1": FAR_MS, "s2": FAR_MS, b"\xff": FAR_MS})
    await redis.set("{p:default}supervisor:s1", b"no json")
    await redis.lpush("{p:default}supervisor:s2", "x")
    await redis.zadd("{p:default}age:bulk", {"t1:odd": float("-inf")})
    await redis.hset(redis_keys.system("default"), mapping={"pace": "nan", "taken_at": "soon"})
    await redis.sadd(redis_keys.claims("default", "w1"), b"\xff")
    found = await seen(pool)
    assert [each.row.worker for each in found.workers] == ["w1"]
    assert found.classes[PriorityClass.BULK] == LiveClass(2, 0, 1)
    assert (found.pace_ms, found.running) == (None, {"t1": 1, "t2": 1})
    await redis.delete("{p:default}age:standard")
    await redis.set("{p:default}age:standard", "x")
    assert (await seen(pool)).classes[PriorityClass.STANDARD].waiting == 0


@pytest.mark.parametrize(("pace", "ago_ms", "told"), [(200, 500, 200.0), (200, 60_000, None), (0, 0, None)])
async def test_a_pace_is_told_while_it_holds(
    redis: Redis, pace: int, ago_ms: int, told: float | None
) -> None:
    """Not where nothing has been taken for far longer."""
    pool = a_pool(redis)
    taken = await pool.queue.now_ms() - ago_ms
    await redis.hset(redis_keys.system("default"), mapping={"pace": pace, "taken_at": taken})
    assert (await seen(pool)).pace_ms == told


async def test_pools_lie_on_several_nodes(cluster: Any, settings: Settings) -> None:
    """Each is read where it is."""
    names = ["eu-1", "eu-2", "eu-3"]
    for name in names:
        await busy(a_pool(cluster, name))
    _, found = await read_live_pools(cluster, settings, names)
    assert [(each.pool, each.running) for each in found] == [(name, {"t1": 1, "t2": 1}) for name in names]
