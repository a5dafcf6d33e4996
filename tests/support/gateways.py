"""Real `parley gateway` processes on one Valkey and one database, workers and reaper in the test's process.

Every process is leashed: however the test ends, none is left behind.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psutil

from billing.api import Quota, create_key, create_project, create_tenant
from billing.pools import fill_pool
from chaos.injected.scripted import ScriptedEngine, seeded
from core.clock import now_ms
from core.configuration.settings import Settings
from core.runtime.leash import LeashedProcess, spawn
from core.sql.database import Database
from core.tasks import cancel_tasks
from core.web.metrics import GATEWAY_PLACE
from engine.api import ModelRecord
from engine.backends.base import Generation
from engine.lifecycle.reaper import Reaper
from engine.models.registry import save
from tests.engine.builders import FINGERPRINT
from tests.engine.workers import PoolWorkers
from tests.server.site import CONTEXT, Site, tiny_model
from tests.support.patience import START_SECONDS, wait_until
from tests.support.ports import free_ports
from tests.support.redis import Redis

LETTERS = [*range(ord("a"), ord("z") + 1), ord(" ")]


class LetterEngine(ScriptedEngine):
    """Says letters that depend on all before them; remembers every generation that it was given."""

    def __init__(self, step_seconds: float = 0.02, seed: int = 1) -> None:
        super().__init__(seeded(seed, LETTERS), step_seconds)
        self.given: list[str] = []

    async def submit(self, generation: Generation) -> None:
        """See ScriptedEngine."""
        self.given.append(generation.id)
        await super().submit(generation)


@dataclass(frozen=True)
class Gateway:
    """One gateway process."""

    port: int
    metrics_port: int
    process: LeashedProcess
    log: Path

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Where its metrics are."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def memory_mib(self) -> float:
        """What it holds resident now."""
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, not its leash."""
        os.kill(self.process.pid, number)

    async def holds_a_connection(self) -> bool:
        """Whether a WebSocket is open here."""
        async with httpx.AsyncClient() as http:
            metrics = (await http.get(self.metrics_url)).text
        counts = [line.split()[-1] for line in metrics.splitlines() if line.startswith("parley_connections{")]
        return any(float(count) > 0 for count in counts)

    async def readiness(self) -> int:
        """The status of /readyz, 0 where nobody listens."""
        return await self._status("/readyz")

    async def starts(self) -> None:
        """Until it serves."""
        await wait_until(self._lives, START_SECONDS)

    async def _lives(self) -> bool:
        assert self.process.returncode is None, self.log.read_text(errors="replace")[-2000:]
        return await self._status("/healthz") == 200

    async def _status(self, path: str) -> int:
        async with httpx.AsyncClient(verify=False) as client:  # loading certificates takes long
            try:
                return (await client.get(self.url + path)).status_code
            except httpx.TransportError:
                return 0


@dataclass
class RunningGateways:
    """Gateways of one installation, in start order. `site` has its tenant, a key and a crew."""

    site: Site
    gateways: list[Gateway] = field(default_factory=list[Gateway])

    def at(self, gateway: Gateway) -> Site:
        """The site, with sockets that go to this gateway."""
        return replace(self.site, settings=self.site.settings.model_copy(update={"port": gateway.port}))

    async def start(self, **environment: str) -> Gateway:
        """One more gateway, once it serves. `environment`: PARLEY_* settings of its own."""
        settings, [port, metrics_port] = self.site.settings, free_ports(2)
        own = {
            "PARLEY_HOME": str(settings.home),
            "PARLEY_REDIS_URL": settings.redis_endpoint,
            "PARLEY_DATABASE_URL": settings.database_endpoint,
            "PARLEY_SECRET": settings.keyring.current.decode(),
            "PARLEY_MODEL": settings.model,
            "PARLEY_PORT": str(port),
            "PARLEY_METRICS_PORT": str(metrics_port - GATEWAY_PLACE),
        }
        log = settings.home / f"gateway-{port}.log"
        argv = [sys.executable, "-m", "core.cli", "gateway"]
        process = await spawn(argv, os.environ | own | environment, log)
        gateway = Gateway(port, metrics_port, process, log)
        self.gateways.append(gateway)
        await gateway.starts()
        return gateway

    async def end(self) -> None:
        """Kill all of them."""
        for gateway in self.gateways:
            gateway.process.kill()
        await asyncio.gather(*(gateway.process.wait() for gateway in self.gateways))


@asynccontextmanager
async def running_gateways(
    settings: Settings, database: Database, redis: Redis, count: int = 2, **environment: str
) -> AsyncGenerator[RunningGateways]:
    """`count` gateways with one tenant and no worker; `fleet.site.crew` starts workers."""
    settings = settings.model_copy(update={"model": "tiny"})
    folder = tiny_model(settings.home / "tiny")
    await save(database, ModelRecord("tiny", "1", FINGERPRINT, folder, CONTEXT), {}, now_ms())
    await fill_pool(database, settings.pool, "tiny", "1", 1)
    tenant = await create_tenant(database, "acme")
    project = await create_project(database, tenant.tenant_id, "web")
    row, secret = await create_key(database, tenant.tenant_id, project.id)
    crew = PoolWorkers(redis, settings)
    fleet = RunningGateways(
        Site(settings, database, redis, tenant.tenant_id, project.id, row.id, secret, crew)
    )
    reaper = Reaper(crew.queue, Quota(redis, settings), settings.reap_interval_ms)
    reaping = asyncio.create_task(reaper.run())
    try:
        await asyncio.gather(*(fleet.start(**environment) for _ in range(count)))
        yield fleet
    finally:
        await cancel_tasks([reaping])
        await fleet.end()
