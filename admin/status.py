"""Data of the console's page: workers, queue, running requests, usage by tenant. Reads only."""

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import func
from sqlmodel import col

from billing.api import owed_by_each
from billing.pages import count_quarantined
from billing.tables.tenants import Tenant, UsageRow
from billing.usage import ended_stream
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.members import reading
from core.sql.database import Database
from engine.api import PoolQueue, PriorityClass, WorkerView

DAY_MS = 24 * 3600 * 1000
RUNNING_SHOWN_MAX = 200
TENANTS_SHOWN_MAX = 100


class WorkerStatus(msgspec.Struct, frozen=True):
    """A registered worker. `kv_usage` is 0 to 1; `lease_ms` the time left of its lease."""

    name: str
    node: str
    model: str
    alive: bool
    lease_ms: int
    running: int
    slots: int
    kv_usage: float


class RunningRequest(msgspec.Struct, frozen=True):
    """A request that a worker holds. No text, ever."""

    tenant: str
    request: str
    worker: str


class TenantUsage(msgspec.Struct, frozen=True):
    """A tenant's last 24 hours, and its present debt beyond its wallet. Money as text, in nano-units."""

    tenant: str
    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_nano: str
    currency: str
    owed_nano: str = "0"


class PoolStatus(msgspec.Struct, frozen=True):
    """State of one pool, at `now_ms` (Redis time)."""

    now_ms: int
    pool: str
    workers: list[WorkerStatus]
    waiting: dict[str, int]
    running: list[RunningRequest]
    running_total: int
    ended_unread: int
    quarantined: int
    usage: list[TenantUsage]


async def read_status(settings: Settings, redis: RedisClient, db: Database) -> PoolStatus:
    """Read everything once."""
    queue = PoolQueue(redis, settings.pool, settings)
    now = await queue.now_ms()
    workers = await queue.workers()
    running = await _running(queue, workers)
    return PoolStatus(
        now_ms=now,
        pool=settings.pool,
        workers=[_worker(worker, now) for worker in workers],
        waiting={each.value: await _waiting(redis, settings.pool, each) for each in PriorityClass},
        running=running[:RUNNING_SHOWN_MAX],
        running_total=len(running),
        ended_unread=await _unread(redis, settings.pool),
        quarantined=await count_quarantined(db),
        usage=await _usage(db, now - DAY_MS),
    )


async def _running(queue: PoolQueue, workers: Sequence[WorkerView]) -> list[RunningRequest]:
    return [
        RunningRequest(tenant, request, worker.worker)
        for worker in workers
        for tenant, request in sorted(await queue.claimed(worker.worker))
    ]


def _worker(worker: WorkerView, now_ms: int) -> WorkerStatus:
    info = worker.info
    return WorkerStatus(
        name=worker.worker,
        node=str(info.get("node", "")),
        model=f"{info.get('model', '')} {info.get('version', '')}".strip(),
        alive=worker.alive,
        lease_ms=max(0, worker.lease_ms - now_ms),
        running=worker.claims,
        slots=worker.count("slots") or 0,
        kv_usage=worker.number("kv_usage") or 0.0,
    )


async def _waiting(redis: RedisClient, pool: str, priority: PriorityClass) -> int:
    key = f"{{p:{pool}}}age:{priority.value}"
    return await reading(key, redis.zcard(key), 0)


async def _unread(redis: RedisClient, pool: str) -> int:
    key = ended_stream(pool)
    return await reading(key, redis.xlen(key), 0)


async def _usage(db: Database, since_ms: int) -> list[TenantUsage]:
    cost = func.sum(col(UsageRow.cost_nano))
    columns = (
        func.count(),
        func.sum(col(UsageRow.input_uncached) + col(UsageRow.input_cached)),
        func.sum(col(UsageRow.output_text) + col(UsageRow.output_reasoning)),
        cost,
    )
    names: tuple[Any, ...] = (Tenant.tenant_id, Tenant.name, UsageRow.currency)
    statement: Any = (
        sqlalchemy.select(*names, *columns)
        .join(Tenant, col(Tenant.tenant_id) == col(UsageRow.tenant_id))
        .where(col(UsageRow.ended_ms) >= since_ms)
        .group_by(col(Tenant.tenant_id), col(Tenant.name), col(UsageRow.currency))
        .order_by(cost.desc())
        .limit(TENANTS_SHOWN_MAX)
    )
    async with db.session() as session:
        rows = (await session.exec(statement)).all()
    owed = await owed_by_each(db, {row[0] for row in rows})
    return [
        TenantUsage(
            tenant,
            name,
            int(count),
            int(given),
            int(made),
            str(int(nano)),
            currency,
            str(owed.get(tenant, 0)),
        )
        for tenant, name, currency, count, given, made, nano in rows
    ]
