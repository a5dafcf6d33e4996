"""Days in which each script but the pools' own is called (theirs is `everything` of the cluster's tests)."""

from dataclasses import replace
from typing import Any

from redis.crc import key_slot

from billing.api import Principal
from billing.dedicated_pools.store import take
from billing.enforcement.limit_push import _LIMITS
from billing.enforcement.take_credit import _end_take, _take_in_redis
from billing.limits import Dimension, RequestLimits, Scope, wallet_limit
from billing.quota.client import Quota
from billing.quota.money import MoneyCounts
from billing.quota.script_calls import LimitsCall, PushedLimit
from billing.quota.types import Admitted, Canceller
from billing.reconciliation.redis_repair import _memory
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.sql.database import Database
from engine.node.reports import NodeReport, PoolNodes, ReadyTime, WorkerOrderKind, WorkerProcessState
from server.connection.connection_limit import ConnectionLimit
from server.connection.session_store import SessionStore
from tests.billing.limited import NOW, LimitedTenant, a_budget, a_rate, places
from tests.engine.builders import Pool
from tests.support.cluster import SLOTS

LIMITS = RequestLimits(
    (
        a_rate(Dimension.REQUESTS, 60),
        a_rate(Dimension.TOKENS, 9_000, scope=Scope.USER, scope_id="u:1"),
        places(9),
    ),
    (a_budget(1 << 40), a_budget(1 << 40, scope=Scope.KEY, scope_id="k1"), wallet_limit(1 << 40, NOW)),
)


def tenant_on(node: int) -> str:
    """A tenant whose slot is on that node of two."""
    names = (f"tenant{at}" for at in range(100))
    return next(name for name in names if key_slot(name.encode()) // (SLOTS // 2) == node)


async def a_tenants_day(redis: Any, settings: Settings, tenant: str) -> None:
    """Everything that a tenant's slot is asked of limits and money."""
    quota, counts = Quota(redis, settings), MoneyCounts(redis)
    builder = LimitedTenant(redis, settings)
    seeds = [(limit, 7, 0) for limit in LIMITS.money]
    assert await counts.put(tenant, seeds, anew=False)
    for id in "abc":
        answer = await quota.admit(replace(builder.admission(id), tenant=tenant, limits=LIMITS))
        assert isinstance(answer, Admitted)
    assert (await quota.extend(tenant, "a", 512)).granted == 512
    assert await quota.rebind(tenant, "a", "B", 1) == "B"
    assert await quota.mark_cancel(tenant, "z", Canceller()) is None
    assert await quota.settle(builder.event("a", output=9, tenant=tenant)) == "settled"
    assert await quota.settle(builder.event("a", output=9, tenant=tenant), 3) == "dup"
    assert await quota.release(tenant, "b")
    assert await quota.settle(builder.event("b", output=9, tenant=tenant), 4) == "settled"
    assert await counts.put(tenant, [(limit, 125, 5) for limit in LIMITS.money], anew=True)
    assert [hold.id for hold in await quota.holds(tenant)] == ["c"]
    assert await quota.open_tenants() == {tenant}
    assert {each.posted_nano for each in await quota.budget_sums(tenant)} == {125}
    assert len(await quota.use(tenant, LIMITS)) == 6
    pushed = LimitsCall(read_ms=5, limits=[PushedLimit(1, 0, 0, hard=True, revision=5)])
    await _LIMITS(redis, [f"{{t:{tenant}}}{LIMITS.money[0].key}"], pushed)
    assert await _memory(redis, tenant) is not None
    await _take_in_redis(redis, tenant, 9, "take1")
    await _end_take(redis, tenant, "take1", given_back=True)
    await quota.forget_posted(tenant, 2)
    assert {(each.seed_seq, each.posted_nano) for each in await quota.budget_sums(tenant)} == {(None, 0)}


async def a_supervisors_day(p: Pool, sqlite: Database) -> None:
    """Its reports, its orders, and its workers' ready time, which the biller takes."""
    await p.worker("w8")
    nodes, ready = PoolNodes(p.queue), ReadyTime("w8", WorkerProcessState.READY, 1, "0", "h200")
    await nodes.report(NodeReport("s1", "node", 1, []))
    assert await nodes.beat([ready])
    assert await take(sqlite, p.redis, p.name) == 1
    assert await nodes.beat([replace_state(ready, WorkerProcessState.STARTING)])
    assert await take(sqlite, p.redis, p.name) == 1
    assert await take(sqlite, p.redis, p.name) == 0
    assert await p.queue.admit(["t1"])
    assert await p.queue.admit([])
    await nodes.order("w8", WorkerOrderKind.DRAIN, "w8")
    await nodes.order("w8", WorkerOrderKind.KILL, "w8")
    orders = [await nodes.next_order("w8", 1) for _ in range(2)]
    assert [order and order.kind for order in orders] == [WorkerOrderKind.DRAIN, WorkerOrderKind.KILL]
    assert await p.client.llen(f"{{p:{p.name}}}orders:w8") == 0
    await nodes.leave("s1")


def replace_state(beat: ReadyTime, state: WorkerProcessState) -> ReadyTime:
    """The same worker, in another state."""
    return ReadyTime(beat.worker, state, beat.gpus, beat.device, beat.gpu_type)


async def a_connections_day(redis: RedisClient, settings: Settings, tenant: str) -> None:
    """Its place, and its session, which goes on elsewhere."""
    scopes = frozenset({"chat"})
    user = Principal(tenant, "p1", "k1", "u1", scopes, "interactive", None, fixed_user=True, owner_key="k1")
    most = settings.model_copy(update={"connections_per_key_max": 2, "connections_per_user_max": 1})
    seats = ConnectionLimit(redis, most)
    assert await seats.take(user, "c1", "") is None
    assert await seats.take(user, "c2", "") is not None
    assert await seats.take(user, "c2", "c1") is None
    await seats.keep()
    sessions = SessionStore(redis, settings, "g1")
    record = await sessions.open(user, "c1", None)
    await sessions.note(record, "r1")
    record = await sessions.open(user, "c2", record.token)
    assert (record.resumed, record.open_ids) == (True, {"r1"})
    await sessions.confirm(record)
    assert record.token_expires_ms > now_ms()
