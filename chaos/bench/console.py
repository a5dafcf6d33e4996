"""`python -m chaos bench console`: how soon the operators' console has the data of its pages."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import click
import httpx

from billing.api import PLATFORM, create_tenant, ensure_owner, make_person_code
from chaos.bench.billing import SECRET, STOP_SECONDS_MAX, billing_testbed
from chaos.bench.seeded_books import opened
from chaos.bench.simulated_workers import SimulatedWorkers
from chaos.bench.targets import free_port
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.measure import CpuUsage
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import connect
from core.runtime.leash import LeashedProcess, spawn

PAGE_MS_MAX = 300
HELD = 8  # requests in each worker's hand
AT_ONCE = 4  # pages that are open at the same time
START_SECONDS_MAX = 60.0
CALL_SECONDS_MAX = 60.0
PAGES = {"overview": "/api/overview"}
# One address and one caller make all calls here.
LIMITS = ("calls_per_caller_per_second", "asks_per_caller_per_second", "calls_per_address_per_second")


@click.command("console")
@click.option("--workers", default=200, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--pools", default=20, show_default=True, type=click.IntRange(1, 256))
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each page.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def console(workers: int, pools: int, tenants: int, calls: int, postgres: bool, as_json: bool) -> None:
    """Call what the console's pages show, again and again, while simulated workers beat.

    The console is a process of its own; one page asks, then several at once.
    """
    dialect = "postgres" if postgres else "sqlite"
    figures = asyncio.run(_measured(dialect, workers, pools, tenants, calls))
    show(f"console, {dialect}, {workers} workers, {pools} pools, {tenants:,} tenants", figures, as_json)


async def _measured(dialect: str, workers: int, pools: int, tenants: int, calls: int) -> list[Figure]:
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed(dialect))
        ids, code = await _seeded(settings, tenants)
        redis = connect(settings)
        stack.push_async_callback(redis.aclose)
        simulated = SimulatedWorkers(redis, settings, workers, pools)
        await simulated.begin(ids, HELD)
        progress(f"{workers} workers hold {workers * HELD:,} requests")
        url, pid = await stack.enter_async_context(running_console(settings))
        client = await stack.enter_async_context(signed_in(url, code))
        await stack.enter_async_context(simulated.beating())
        figures: list[Figure] = []
        for page, path in PAGES.items():
            await _timed(client, path, AT_ONCE)
            before = CpuUsage.of(pid)
            alone = await _timed(client, path, calls)
            cpu_ms = 1000 * (CpuUsage.of(pid).cpu_seconds - before.cpu_seconds) / calls
            at_once = await asyncio.gather(
                *(_timed(client, path, calls // AT_ONCE or 1) for _ in range(AT_ONCE))
            )
            size = len((await client.get(path)).content)
            figures += figures_of(page, alone, [each for took in at_once for each in took], cpu_ms, size)
        return figures


async def _seeded(settings: Settings, tenants: int) -> tuple[list[str], str]:
    """Tenants, and a code that signs the owner in."""
    async with opened(settings) as db:
        ids = [(await create_tenant(db, f"tenant-{at}")).tenant_id for at in range(tenants)]
        member = await ensure_owner(db, "Ann")
    assert member is not None, "others own the installation"
    progress(f"{tenants:,} tenants")
    return ids, make_person_code(settings.keyring, member.person.id, PLATFORM, now_ms())


@asynccontextmanager
async def running_console(settings: Settings) -> AsyncGenerator[tuple[str, int]]:
    """The base URL of the operators' console, a process until the block ends, and its id."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")},
        "PARLEY_HOME": str(settings.home),
        "PARLEY_DATABASE_URL": settings.database_endpoint,
        "PARLEY_REDIS_URL": settings.redis_endpoint,
        "PARLEY_SECRET": SECRET,
        "PARLEY_CONSOLE_PORT": str(port),
        **{f"PARLEY_{name.upper()}": "1000000" for name in LIMITS},
    }
    argv = [sys.executable, "-m", "core.cli", "console"]
    process = await spawn(argv, environment, settings.home / "console.log")
    url = f"http://127.0.0.1:{port}"
    try:
        await _until_it_answers(url, process)
        yield url, process.pid
    finally:
        process.terminate()
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()


async def _until_it_answers(url: str, process: LeashedProcess) -> None:
    async with httpx.AsyncClient() as client, asyncio.timeout(START_SECONDS_MAX):
        while True:
            assert process.returncode is None, "the console ended"
            try:
                (await client.get(f"{url}/healthz")).raise_for_status()
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def signed_in(url: str, code: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser as whom the code is of."""
    async with httpx.AsyncClient(base_url=url, timeout=CALL_SECONDS_MAX) as client:
        reply = await client.post("/api/sign-in", json={"by": "link", "code": code}, headers={"origin": url})
        assert reply.status_code == 200, f"nobody could sign in: {reply.text}"
        yield client


async def _timed(client: httpx.AsyncClient, path: str, calls: int) -> list[float]:
    """How long each call took, in ms."""
    took: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        reply = await client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        assert reply.status_code == 200, reply.text
    return took


def figures_of(
    page: str, alone: Sequence[float], at_once: Sequence[float], cpu_ms: float, size: int
) -> list[Figure]:
    """Figures of one page. Pure."""
    return [
        Figure(f"{page}, p50", round(percentile(alone, 0.5), 1), "ms"),
        Figure(f"{page}, p95", round(percentile(alone, 0.95), 1), "ms", most=PAGE_MS_MAX),
        Figure(f"{page}, {AT_ONCE} pages at once, p95", round(percentile(at_once, 0.95), 1), "ms"),
        Figure(f"{page}, CPU of the console a call", round(cpu_ms, 1), "ms"),
        Figure(f"{page}, answer", round(size / 1024, 1), "KiB"),
    ]
