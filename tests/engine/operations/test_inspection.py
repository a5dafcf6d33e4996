"""What operators see of a pool, on a real Valkey. What people say is in none of it."""

import msgspec
import pytest

from core.redis.client import RedisClient
from engine.api import Control, RequestStatus
from engine.node.reports import NodeReport, PoolNodes, WorkerOrderKind, WorkerProcessState, WorkerReport
from engine.operations.inspection import Inspection
from engine.queue.types import TenantTerms
from tests.engine.builders import START_MS, TENANT, Pool, append_to, end_entry, request, usage_event
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.redis import Redis

SECRET = "what nobody but its reader may see"


@pytest.fixture
def pool(redis: Redis) -> Pool:
    """The default pool on a clock that the tests move."""
    return Pool(redis)


async def test_requests_are_listed_by_tenant_and_status(pool: Pool):
    """Waiting, running and ended ones, each with where it is and how far it got."""
    running = await pool.running()
    await pool.queue.append("w1", [append_to(running, ids=(1, 2, 3), x=SECRET)])
    waiting = request(tenant="t2", model="smollm2")
    await pool.queue.enqueue(waiting)
    seen = Inspection(pool.queue)
    rows = {row.id: row for row in await seen.requests(None, None, 100)}
    assert {(row.tenant, row.status, row.worker) for row in rows.values()} == {
        ("t1", "running", "w1"),
        ("t2", "queued", ""),
    }
    assert rows[running.id].tokens == 3
    assert rows[running.id].log_head == 3
    assert [row.id for row in await seen.requests("t2", None, 100)] == [waiting.id]
    assert [row.id for row in await seen.requests(None, RequestStatus.RUNNING, 100)] == [running.id]
    assert len(await seen.requests(None, None, 1)) == 1
    assert await seen.requests(None, RequestStatus.ENDED, 100) == []


async def test_ended_requests_come_from_their_stream(pool: Pool):
    """Also once their record has gone."""
    claim = await pool.running()
    end = append_to(
        claim, ids=(1,), entries=[end_entry(claim.o + 1, 1)], end=usage_event(TENANT, claim.id, "length")
    )
    await pool.queue.append("w1", [end])
    seen = Inspection(pool.queue)
    (row,) = await seen.requests(TENANT, RequestStatus.ENDED, 100)
    assert (row.id, row.status, row.reason, row.tokens) == (claim.id, "ended", "length", 1)
    assert await seen.requests("t2", RequestStatus.ENDED, 100) == []
    await pool.client.delete(pool.key(f"req:{TENANT}:{claim.id}"))
    (row,) = await seen.requests(TENANT, RequestStatus.ENDED, 100)
    assert (row.id, row.status) == (claim.id, "ended")


async def test_a_request_shows_everything_but_what_was_said(pool: Pool):
    """Its place, claims, tokens, log, times, readers and standing orders."""
    claim = await pool.running(gateway="g1")
    await pool.queue.append("w1", [append_to(claim, ids=(1, 2), x=SECRET)])
    await pool.queue.reader(TENANT, claim.id, "g2", "stuck")
    await pool.queue.control(TENANT, claim.id, Control.CANCEL)
    seen = Inspection(pool.queue)
    found = await seen.request(TENANT, claim.id)
    assert found is not None
    assert (found.row.status, found.row.worker, found.row.tokens, found.visible) == (
        "running",
        "w1",
        2,
        len(SECRET),
    )
    assert found.readers == {"g1": "reading", "g2": "stuck"}
    assert found.control == Control.CANCEL
    assert (found.log_first, found.row.log_head) == (1, 3)
    assert found.row.accepted_ms == START_MS
    assert SECRET not in repr(found)
    assert SECRET.encode() not in msgspec.json.encode(found)


async def test_a_request_is_found_without_its_tenant(pool: Pool):
    """By its id alone; an unknown one is not, and no pattern is one."""
    waiting = [request(tenant=tenant) for tenant in ("t1", "a:b")]
    for each in waiting:
        await pool.queue.enqueue(each)
    seen = Inspection(pool.queue)
    for each in waiting:
        assert await seen.find(each.id, None) == (each.tenant, each.id)
        assert await seen.find(each.id, each.tenant) == (each.tenant, each.id)
        assert await seen.find(each.id, "t9") is None
    for unknown in ("", "*", f"{waiting[0].id[:-1]}?", request().id):
        assert await seen.find(unknown, None) is None
    found = await seen.request("a:b", waiting[1].id)
    assert found is not None
    assert found.older == 1


async def test_a_snapshot_counts_classes_tenants_and_workers(pool: Pool):
    """Waiting and running of each, and how long the oldest has waited."""
    claim = await pool.running()
    for _ in range(3):
        await pool.queue.enqueue(request(tenant="t2"))
    pool.clock.advance(2_000)
    await pool.queue.renew("w1", 0, {"node": "n1", "running": 1, "waiting": 0, "kv_usage": 0.25})
    seen = await Inspection(pool.queue).snapshot()
    assert [(row.priority, row.waiting, row.running) for row in seen.classes] == [
        ("interactive", 3, 1),
        ("standard", 0, 0),
        ("bulk", 0, 0),
    ]
    assert seen.classes[0].oldest_ms == 2_000
    assert {(row.tenant, row.waiting, row.running) for row in seen.tenants} == {
        (claim.tenant, 0, 1),
        ("t2", 3, 0),
    }
    (worker,) = seen.workers
    assert (worker.worker, worker.state, worker.claims, worker.kv_usage) == ("w1", "ready", 1, 0.25)


async def test_a_snapshot_shows_how_tenants_share_the_pool(pool: Pool):
    """Weight, what is in flight, what was served, and who is stopped by a cap."""
    await pool.queue.set_tenant("t2", TenantTerms(weight=2.5, slots_max=1))
    await pool.running(tenant="t2", prompt_tokens=10)
    await pool.queue.enqueue(request(tenant="t2"))
    (row,) = (await Inspection(pool.queue).snapshot()).tenants
    assert (row.tenant, row.waiting, row.running, row.blocked) == ("t2", 1, 1, True)
    assert (row.weight, row.served) == (2.5, 4)
    assert row.tokens > 10


async def test_workers_are_what_the_pool_and_their_supervisors_say(pool: Pool):
    """Registered, draining, lapsed; and those that are not registered yet, or no more."""
    nodes, seen = PoolNodes(pool.queue), Inspection(pool.queue)
    for name in ("w1", "w2", "w3"):
        await pool.worker(name)
    slots = [
        WorkerReport(0, "w1", 11, WorkerProcessState.READY, starts=2, memory_mib=700),
        WorkerReport(1, "w4", 14, WorkerProcessState.STARTING, starts=1),
        WorkerReport(2, "w5", 0, WorkerProcessState.RESTARTING, why="ended with code 1"),
    ]
    await nodes.report(NodeReport("s1", "n1", 1, slots))
    await nodes.order("w2", WorkerOrderKind.DRAIN, "w2")
    states = {row.worker: row.state for row in await seen.workers()}
    assert states == {
        "w1": "ready",
        "w2": "draining",
        "w3": "ready",
        "w4": "starting",
        "w5": "restarting",
    }
    rows = {row.worker: row for row in await seen.workers()}
    assert (rows["w1"].memory_mib, rows["w1"].starts) == (700, 2)
    assert rows["w5"].why == "ended with code 1"
    pool.clock.advance(3_001)
    assert {row.state for row in await seen.workers() if row.worker == "w3"} == {"lapsed"}
    await nodes.leave("s1")
    assert {row.worker for row in await seen.workers()} == {"w1", "w2", "w3"}


async def test_an_order_reaches_its_addressee_once(pool: Pool):
    """In the order in which they were given; without one the wait ends."""
    nodes = PoolNodes(pool.queue)
    await nodes.order("s1", WorkerOrderKind.KILL, "w1")
    await nodes.order("s1", WorkerOrderKind.KILL, "w2")
    taken = [await nodes.next_order("s1", 0.05) for _ in range(3)]
    assert [order.worker if order else None for order in taken] == ["w1", "w2", None]
    assert await pool.client.exists(pool.key("worker:w1")) == 0


async def test_everything_works_on_a_cluster(cluster: RedisClient):
    """All keys of a pool are in its slot, and a request is found on whichever node that is."""
    for name in ("a", "b", "c", "d"):
        pool = Pool(cluster, name=name)
        claim = await pool.running()
        await PoolNodes(pool.queue).report(NodeReport("s1", "n1", 1, []))
        seen = Inspection(pool.queue)
        assert await seen.find(claim.id, None) == (TENANT, claim.id)
        assert len((await seen.snapshot()).workers) == len(await seen.requests(None, None, 10)) == 1
