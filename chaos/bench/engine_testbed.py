"""What the engine's benchmarks run on: one gateway and one worker, with tenants that ask over lean sockets.

The worker's engine is vLLM with the arguments that raw AsyncLLM gets beside it, or the scripted one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from billing import usage
from billing.api import create_key, create_project, create_tenant
from billing.usage import UsageEvent
from chaos.bench.load import Ask
from chaos.bench.targets import EngineArguments
from chaos.bench.wire import BenchSocket
from chaos.installation.testbed import RunningProcess, SessionTestbed, answers, serve_model, session_testbed
from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import PoolQueue, prepare_model

Command = TypeVar("Command", bound=Callable[..., Any])

REQUESTS_PER_WIRE = 16
IDLE_SECONDS_MAX = 120.0
READY_SECONDS_MAX = 240.0
WATCH_SECONDS = 1.0
KV_MIB = 512
BATCHED_TOKENS = 256
MODEL = "smollm2"


class BenchEngine(StrEnum):
    """What the worker runs."""

    SCRIPTED = "scripted"
    VLLM = "vllm"


def engine_option(default: BenchEngine) -> Callable[[Command], Command]:
    """The option --engine of the benchmarks that run with both."""
    return click.option(
        "--engine",
        type=click.Choice([each.value for each in BenchEngine]),
        default=default.value,
        show_default=True,
        callback=lambda _context, _option, value: BenchEngine(value),
        help="What workers run. The scripted one has no raw AsyncLLM to compare with.",
    )


@dataclass
class TenantSockets:
    """One tenant's sockets; each request goes over the one with the fewest."""

    wires: list[BenchSocket]
    priority: str

    def ask(self, prompt: str, max_tokens: int) -> AsyncIterator[int]:
        """As load.Ask."""
        wire = min(self.wires, key=lambda each: each.open_requests)
        return wire.ask(prompt, max_tokens, self.priority)


@dataclass
class BenchInstallation:
    """A running installation."""

    site: SessionTestbed
    redis: RedisClient
    queue: PoolQueue
    gateway: RunningProcess
    worker: RunningProcess
    stack: AsyncExitStack
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    tenants: dict[str, str] = field(default_factory=dict[str, str])

    async def asker(self, tenant: str, at_once: int = 1, priority: str = "interactive") -> Ask:
        """Ask as this tenant, which is made where it is new; so many requests fit its sockets."""
        if tenant not in self.keys:
            await self._make(tenant)
        wires: list[BenchSocket] = []
        for _ in range(-(-at_once // REQUESTS_PER_WIRE)):
            wires.append(await BenchSocket.open(self.gateway.url, self.keys[tenant]))
            self.stack.push_async_callback(wires[-1].close)
        return TenantSockets(wires, priority).ask

    async def _make(self, tenant: str) -> None:
        database = Database(self.site.settings.database_endpoint)
        try:
            row = await create_tenant(database, tenant)
            project = await create_project(database, row.tenant_id, "load")
            _, key = await create_key(database, row.tenant_id, project.id)
        finally:
            await database.close()
        self.keys[tenant], self.tenants[tenant] = key, row.tenant_id

    async def worker_in(self, pool: str) -> PoolQueue:
        """Another worker like the first, in another pool; its pool, once it serves."""
        worker = await self.site.start(["-m", "core.cli", "worker"], **self.given, pool=pool)
        queue, deadline = (
            PoolQueue(self.redis, pool, self.site.settings),
            time.monotonic() + READY_SECONDS_MAX,
        )
        while worker.alive and time.monotonic() < deadline:
            if any(each.alive for each in await queue.workers()):
                return queue
            await asyncio.sleep(0.05)
        raise RuntimeError(f"no worker serves in pool {pool}: {worker.log.read_text()[-2000:]}")

    async def info(self) -> dict[str, Any]:
        """What the worker says of itself, at most a second old."""
        workers = await self.queue.workers()
        return workers[0].info if workers else {}

    async def idle(self) -> None:
        """Nothing runs or waits, and the engine has noticed."""
        deadline = time.monotonic() + IDLE_SECONDS_MAX
        while time.monotonic() < deadline:
            held = sum(worker.claims for worker in await self.queue.workers())
            if not held and not await self._waiting():
                await asyncio.sleep(0.3)
                return
            await asyncio.sleep(0.05)
        raise RuntimeError("the pool did not come to rest")

    async def ended(self, tenant: str) -> list[UsageEvent]:
        """Usage events of this tenant that the stream still holds, in order."""
        rows = await self.redis.xrange(f"{{p:{self.queue.pool}}}ended")
        events = [usage.decode(fields[b"e"]) for _, fields in rows]
        return [event for event in events if event.tenant == self.tenants[tenant]]

    async def _waiting(self) -> int:
        classes = ("interactive", "standard", "bulk")
        return sum([await self.redis.zcard(f"{{p:{self.queue.pool}}}age:{name}") for name in classes])


async def model_folder() -> Path:
    """The built-in model, provisioned in this user's home."""
    return await prepare_model(MODEL, Settings().home, lambda line: None)


def arguments(folder: Path, slots: int, max_model_len: int = 2048, **changes: Any) -> EngineArguments:
    """Of every engine that is compared."""
    return EngineArguments(folder, slots, KV_MIB, BATCHED_TOKENS, max_model_len, **changes)


@asynccontextmanager
async def bench_installation(
    engine: BenchEngine, slots: int, max_model_len: int = 2048, step_ms: float = 20.0, **settings: object
) -> AsyncGenerator[BenchInstallation]:
    """A fresh installation that answers; removed at the end."""
    given: dict[str, Any] = {
        "worker_slots": slots,
        "worker_threads": 1,
        "worker_kv_mib": KV_MIB,
        "worker_batched_tokens": BATCHED_TOKENS,
        "log_keep_seconds": 300,
        **settings,
    }
    if engine is BenchEngine.VLLM:
        given |= {"model": MODEL, "worker_max_model_len": max_model_len}
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(session_testbed(**given))
        if engine is BenchEngine.VLLM:
            await register(site)
        else:
            given |= {"test_backend": "scripted", "test_step_ms": step_ms}
        redis = connect(site.settings)
        stack.push_async_callback(redis.aclose)
        gateway = await site.gateway(**given)
        worker = await site.start(["-m", "core.cli", "worker"], **given)
        await answers(gateway, "/readyz", READY_SECONDS_MAX)
        queue = PoolQueue(redis, site.settings.pool, site.settings)
        yield BenchInstallation(site, redis, queue, gateway, worker, site.stack, given)


async def register(site: SessionTestbed) -> None:
    """The built-in model, for this installation."""
    database = Database(site.settings.database_endpoint)
    try:
        await serve_model(database, await model_folder(), site.settings)
    finally:
        await database.close()


@dataclass
class WorkerSamples:
    """What the worker said of itself, a second apart, while something was measured."""

    running: list[int] = field(default_factory=list[int])
    step_predicted_ms: list[int] = field(default_factory=list[int])
    waiting_max: int = 0


@asynccontextmanager
async def watching(installation: BenchInstallation, into: WorkerSamples) -> AsyncGenerator[None]:
    """Look at the worker every second until the block ends."""

    async def look() -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if info := await installation.info():
                into.running.append(info.get("running", 0))
                into.step_predicted_ms.append(info.get("step_predicted_ms", 0))
                into.waiting_max = max(into.waiting_max, info.get("waiting_max", 0))

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        await cancel_tasks([task])
