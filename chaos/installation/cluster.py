"""The installation under attack: Valkey, SQLite, gateways, biller and workers, each a real process, all on
leashes.

Knows where everything is and what state it is in. Does no harm by itself: that is `chaos/faults`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlmodel import col, select

from billing.api import Quota, create_key, create_project, create_tenant
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import ended_stream
from chaos.injected.deaths import CONSENT_VALUE
from chaos.installation import worker_keeper
from chaos.installation.balancer import Balancer, running_balancer
from chaos.installation.forked import forking
from chaos.installation.testbed import RunningProcess, SessionTestbed, serve_model, session_testbed
from chaos.observations import Posted, TenantSums
from core.redis.client import RedisClient, connect
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import LogReader, PoolQueue, prepare_model

VLLM_MODEL = "smollm2"
READY_SECONDS_MAX = 300.0
BILLER, GATEWAY = (["-m", "core.cli", name] for name in ("biller", "gateway"))
EMPTY_AT_REST = ("run", "claims", "ids", "age", "act", "blocked", "in", "tok", "rd", "reads", "deadlines")
EMPTY_AT_REST_TOO = ("parked", "unread", "quarantine", "large")


class EngineKind(StrEnum):
    """What the workers run: a script whose every answer is known beforehand, or vLLM on this machine."""

    SCRIPTED = "scripted"
    VLLM = "vllm"


@dataclass(frozen=True)
class InstallationPlan:
    """How large an installation, and how its workers run. `forked`: see worker_keeper.py; `dtype`: of vLLM.

    `settings` are fields of Settings, for every process. `failpoints`: where processes kill themselves
    (chaos/injected/deaths.py, `POINT:n`). With those, or `kept`, gateways and billers are started again when
    they end, as workers always are. `cached_percent`: of each prompt, as the scripted engine says."""

    engine: EngineKind = EngineKind.SCRIPTED
    workers: int = 4
    gateways: int = 1
    forked: bool = True
    seed: int = 1
    step_ms: float = 10.0
    dtype: str = "float32"
    settings: dict[str, object] = field(default_factory=dict[str, object])
    failpoints: tuple[str, ...] = ()
    billers: int = 1
    kept: bool = False
    cached_percent: int = 0


@dataclass
class RestartedProcess:
    """A gateway or biller that is started again whenever it ends; `running` is the one that is now."""

    site: SessionTestbed
    arguments: list[str]
    settings: dict[str, Any]
    running: RunningProcess

    @property
    def url(self) -> str:
        """A gateway's, without a path."""
        return f"http://127.0.0.1:{self.settings['port']}"

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self.running.process.wait()
            self.running = await self.site.start(self.arguments, **self.settings)


@dataclass
class InstalledTenant:
    """Somebody who asks: a tenant and its key."""

    id: str
    key: str


@dataclass
class Installation:
    """A running installation. `tenant` is the first one; `another_tenant` makes more."""

    plan: InstallationPlan
    site: SessionTestbed
    redis: RedisClient
    queue: PoolQueue
    log: LogReader
    database: Database
    balancer: Balancer
    gateways: list[RunningProcess]
    tenants: list[InstalledTenant]
    kept_billers: list[RestartedProcess] = field(default_factory=list[RestartedProcess])
    kept_gateways: list[RestartedProcess] = field(default_factory=list[RestartedProcess])

    @property
    def tenant(self) -> InstalledTenant:
        """The first tenant."""
        return self.tenants[0]

    async def another_tenant(self, name: str) -> InstalledTenant:
        """One more, with a key."""
        row = await create_tenant(self.database, name)
        project = await create_project(self.database, row.tenant_id, "load")
        _, key = await create_key(self.database, row.tenant_id, project.id)
        self.tenants.append(InstalledTenant(row.tenant_id, key))
        return self.tenants[-1]

    async def posted(self) -> list[Posted]:
        """All billed usage."""
        async with self.database.session() as session:
            rows = (await session.exec(select(UsageRow))).all()
        return [
            Posted(
                row.tenant_id,
                row.request_id,
                row.reason,
                row.input_uncached + row.input_cached,
                row.output_text + row.output_reasoning,
                row.cost_nano,
            )
            for row in rows
        ]

    async def quarantined(self) -> list[tuple[str, str]]:
        """Events that the biller would not post: request and reason."""
        async with self.database.session() as session:
            statement = select(col(UsageQuarantine.request_id), col(UsageQuarantine.reason))
            return [(request or "", reason) for request, reason in (await session.exec(statement)).all()]

    async def events_added(self) -> int:
        """How many usage events the pool has published since Redis was last emptied, those included that were
        trimmed."""
        stream = ended_stream(self.site.settings.pool)
        if not await self.redis.exists(stream):
            return 0
        return int((await self.redis.xinfo_stream(stream))["entries-added"])

    async def settled(self) -> dict[str, TenantSums]:
        """What each tenant's slot has counted."""
        found: dict[str, TenantSums] = {}
        for tenant in self.tenants:
            fields = await self.redis.hgetall(f"{{t:{tenant.id}}}posted")
            sums = {name.decode(): int(value) for name, value in fields.items()}
            found[tenant.id] = TenantSums(
                *(sums.get(n, 0) for n in ("requests", "input", "output", "cost_nano"))
            )
        return found

    async def leftovers(self) -> list[str]:
        """Everything in Redis that says that something still runs or waits (INV-4)."""
        found: list[str] = []
        prefix = f"{{p:{self.site.settings.pool}}}"
        async for raw in self.redis.scan_iter(match=f"{prefix}*", count=1000):
            key = raw.decode()
            word = key.removeprefix(prefix).partition(":")[0]
            if word in EMPTY_AT_REST or word in EMPTY_AT_REST_TOO:
                found.append(key)
            elif word == "req" and await self.redis.hget(key, "status") != b"ended":
                found.append(f"{key} is not ended")
        quota = Quota(self.redis, self.site.settings)
        held = [(tenant.id, await quota.open_requests(tenant.id)) for tenant in self.tenants]
        return sorted(found + [f"{count} open requests of {id}" for id, count in held if count])


@asynccontextmanager
async def running_cluster(plan: InstallationPlan) -> AsyncGenerator[Installation]:
    """A fresh installation, ready to answer; it is removed at the end."""
    changed: dict[str, Any] = {"log_keep_seconds": 300, **plan.settings, **_engine_settings(plan)}
    async with AsyncExitStack() as stack:
        stack.enter_context(forking())
        site = await stack.enter_async_context(
            session_testbed(**plan.settings)
        )  # ours obeys them like the others
        database = Database(site.settings.database_endpoint)
        stack.push_async_callback(database.close)
        if plan.engine is EngineKind.VLLM:
            folder = await prepare_model(VLLM_MODEL, site.settings.home, lambda line: None)
            await serve_model(database, folder, site.settings)
        redis = connect(site.settings)
        stack.push_async_callback(redis.aclose)
        of_gateway, of_biller, of_worker = (
            changed | _armed(plan, process) for process in ("gateway", "biller", "worker")
        )
        billers = [await site.start(BILLER, **of_biller) for _ in range(plan.billers)]
        workers = (
            worker_keeper.forked(site, redis, plan.workers, **of_worker)
            if plan.forked
            else worker_keeper.supervised(site, plan.workers, **of_worker)
        )
        async with asyncio.TaskGroup() as group:
            starting = [group.create_task(site.gateway(**of_gateway)) for _ in range(plan.gateways)]
            await stack.enter_async_context(workers)
        gateways = [each.result() for each in starting]
        kept_billers = [RestartedProcess(site, BILLER, of_biller, each) for each in billers]
        ports = [int(each.url.rpartition(":")[2]) for each in gateways]
        kept_gateways = [
            RestartedProcess(site, GATEWAY, of_gateway | {"port": port}, each)
            for port, each in zip(ports, gateways, strict=True)
        ]
        if plan.failpoints or plan.kept:
            keeping = [asyncio.create_task(each.keep()) for each in (*kept_billers, *kept_gateways)]
            stack.push_async_callback(cancel_tasks, keeping)
        balancer = await stack.enter_async_context(running_balancer([each.url for each in gateways]))
        async with asyncio.timeout(READY_SECONDS_MAX):
            while len(balancer.ready) < plan.gateways:  # noqa: ASYNC110  (the balancer asks at its own pace)
                await asyncio.sleep(0.05)
        pool = site.settings.pool
        queue, log = PoolQueue(redis, pool, site.settings), LogReader(redis, pool)
        first = InstalledTenant(site.tenant, site.key)
        kept = kept_billers, kept_gateways
        yield Installation(plan, site, redis, queue, log, database, balancer, gateways, [first], *kept)


def _armed(plan: InstallationPlan, process: str) -> dict[str, Any]:
    """What makes a process of this name die at its failpoints."""
    points = [point for point in plan.failpoints if point.startswith(f"{process}.")]
    return {"failpoints": ",".join(points), "test_crashes": CONSENT_VALUE} if points else {}


def _engine_settings(plan: InstallationPlan) -> dict[str, object]:
    if plan.engine is EngineKind.VLLM:
        return {"model": VLLM_MODEL, "worker_dtype": plan.dtype}
    script = {"test_step_ms": plan.step_ms, "test_seed": plan.seed}
    return {"test_backend": "scripted", "test_cached_percent": plan.cached_percent, **script}
