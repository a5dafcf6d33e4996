"""`python -m chaos bench console`: how soon the operators' console has the data of its pages."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import click
import httpx

from admin.api.callers import OPERATORS_SIDE
from billing.seeding.shapes import SeedShape
from chaos.bench.api_lists.installation import owner_code, running_consoles, seed_installation, signed_in
from chaos.bench.billing import billing_testbed
from chaos.bench.simulated_workers import SimulatedWorkers
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.measure import CpuUsage
from core.clock import now_ms
from core.redis.client import connect

PAGE_MS_MAX = 300
HELD = 8  # requests in each worker's hand
AT_ONCE = 4  # pages that are open at the same time
PAGES = {"overview": "/api/overview"}


@click.command("console")
@click.option("--workers", default=200, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--pools", default=20, show_default=True, type=click.IntRange(1, 256))
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(3, 10_000))
@click.option("--events", default=0, show_default=True, type=click.IntRange(0, 100_000_000))
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each page.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def console(
    workers: int, pools: int, tenants: int, events: int, calls: int, postgres: bool, as_json: bool
) -> None:
    """Call what the console's pages show, again and again, while simulated workers beat.

    The console is a process of its own; one page asks, then several at once.
    """
    dialect = "postgres" if postgres else "sqlite"
    shape = SeedShape(tenants, events, now_ms())
    figures = asyncio.run(_measured(dialect, workers, pools, shape, calls))
    many = f"{workers} workers, {pools} pools, {tenants:,} tenants, {events:,} usage events"
    show(f"console, {dialect}, {many}", figures, as_json)


async def _measured(dialect: str, workers: int, pools: int, shape: SeedShape, calls: int) -> list[Figure]:
    side = OPERATORS_SIDE.name
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed(dialect))
        tenants = [each.tenant for each in (await seed_installation(settings, shape)).sources]
        redis = connect(settings)
        stack.push_async_callback(redis.aclose)
        simulated = SimulatedWorkers(redis, settings, workers, pools)
        await simulated.begin(tenants, HELD)
        progress(f"{workers} workers hold {workers * HELD:,} requests")
        console = (await stack.enter_async_context(running_consoles(settings, [side])))[side]
        client = await stack.enter_async_context(signed_in(console.url, await owner_code(settings)))
        await stack.enter_async_context(simulated.beating())
        figures: list[Figure] = []
        for page, path in PAGES.items():
            await _timed(client, path, AT_ONCE)
            before = CpuUsage.of(console.pid)
            alone = await _timed(client, path, calls)
            cpu_ms = 1000 * (CpuUsage.of(console.pid).cpu_seconds - before.cpu_seconds) / calls
            some = [_timed(client, path, calls // AT_ONCE or 1) for _ in range(AT_ONCE)]
            at_once = await asyncio.gather(*some)
            size = len((await client.get(path)).content)
            figures += figures_of(page, alone, [each for took in at_once for each in took], cpu_ms, size)
        return figures


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
