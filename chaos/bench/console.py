"""`python -m chaos bench console`: how soon the operators' console has the data of its pages.

A page's data is what it asks for when it is opened: each page of the router is opened in Chromium once, and
what it asked for is asked again and again, six calls at once, as a browser does. Needs Playwright
(requirements/test.txt).
"""

import asyncio
import re
import shutil
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import click
import httpx
from playwright.async_api import Page, async_playwright

from admin.api.callers import OPERATORS_SIDE
from billing.seeding.shapes import SeedShape
from chaos.bench.api_lists.installation import owner_code, running_consoles, seed_installation, signed_in
from chaos.bench.billing import billing_testbed
from chaos.bench.console_pages import ConsolePage, calls_of, console_pages
from chaos.bench.simulated_workers import SimulatedWorkers, even_pools
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.measure import CpuUsage
from core.clock import now_ms
from core.redis.client import connect

PAGE_MS_MAX = 300
HELD = 8  # requests in each worker's hand
AT_ONCE = 4  # pages that are open at the same time
CONNECTIONS = 6  # of a browser to one server
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass
class TimedPage:
    """A page's calls. `took`: ms from the first call to the last answer, each time; `of_call`: ms of each
    call; `bytes`: of all answers once."""

    client: httpx.AsyncClient
    calls: Sequence[str]
    took: list[float] = field(default_factory=list[float])
    of_call: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    bytes: int = 0

    async def open(self, times: int) -> None:
        """Ask for all, so many times."""
        for _ in range(times):
            free = asyncio.Semaphore(CONNECTIONS)
            began = time.perf_counter()
            self.bytes = sum(await asyncio.gather(*(self._call(each, free) for each in self.calls)))
            self.took.append((time.perf_counter() - began) * 1000)

    async def _call(self, call: str, free: asyncio.Semaphore) -> int:
        async with free:
            began = time.perf_counter()
            reply = await self.client.get(call)
            self.of_call.setdefault(call, []).append((time.perf_counter() - began) * 1000)
        assert reply.status_code == 200, f"{call}: {reply.status_code}: {reply.text[:500]}"
        return len(reply.content)


@click.command("console")
@click.option("--workers", default=200, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--pools", default=20, show_default=True, type=click.IntRange(1, 256))
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(3, 10_000))
@click.option("--events", default=0, show_default=True, type=click.IntRange(0, 100_000_000))
@click.option("--calls", default=200, show_default=True, type=click.IntRange(1), help="Of each page.")
@click.option("--page", "only", default="", help="Only pages whose name begins so.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def console(
    workers: int,
    pools: int,
    tenants: int,
    events: int,
    calls: int,
    only: str,
    postgres: bool,
    as_json: bool,
) -> None:
    """Ask for what the console's pages show, again and again, while simulated workers beat.

    The console is a process of its own; one page asks, then several at once. The pages are the router's, and
    their calls those that each makes when Chromium opens it, of the largest tenant where it is of one.
    """
    dialect = "postgres" if postgres else "sqlite"
    shape = SeedShape(tenants, events, now_ms())
    figures = asyncio.run(_measured(dialect, workers, pools, shape, calls, only))
    many = f"{workers} workers, {pools} pools, {tenants:,} tenants, {events:,} usage events"
    show(f"console, {dialect}, {many}", figures, as_json)


async def _measured(
    dialect: str, workers: int, pools: int, shape: SeedShape, calls: int, only: str
) -> list[Figure]:
    side = OPERATORS_SIDE.name
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed(dialect))
        tenants = [each.tenant for each in (await seed_installation(settings, shape)).sources]
        redis = connect(settings)
        stack.push_async_callback(redis.aclose)
        simulated = SimulatedWorkers(redis, settings, even_pools(workers, pools))
        await simulated.begin(tenants, HELD)
        progress(f"{workers} workers hold {workers * HELD:,} requests")
        console = (await stack.enter_async_context(running_consoles(settings, [side])))[side]
        client = await stack.enter_async_context(signed_in(console.url, await owner_code(settings)))
        await stack.enter_async_context(simulated.beating())
        tenant, request = simulated.requests[0]
        examples = {"tenant": tenants[0], "pool": "pool-0", "request": f"{request}?tenant={tenant}"}
        figures: list[Figure] = []
        asked = await asked_by_pages(console.url, client, console_pages(), examples, only)
        for name, page in asked.items():
            figures += await page_figures(name, TimedPage(client, page), calls, console.pid)
        return figures


async def page_figures(name: str, page: TimedPage, calls: int, pid: int) -> list[Figure]:
    """Ask for a page's data so often, alone and beside others: figures. `pid`: of who answers."""
    progress(f"{name}: {len(page.calls)} calls")
    await TimedPage(page.client, page.calls).open(AT_ONCE)
    before = CpuUsage.of(pid)
    await page.open(calls)
    cpu_ms = 1000 * (CpuUsage.of(pid).cpu_seconds - before.cpu_seconds) / calls
    some = [TimedPage(page.client, page.calls) for _ in range(AT_ONCE)]
    await asyncio.gather(*(each.open(calls // AT_ONCE or 1) for each in some))
    return figures_of(name, page, [took for each in some for took in each.took], cpu_ms)


async def asked_by_pages(
    url: str,
    client: httpx.AsyncClient,
    pages: Sequence[ConsolePage],
    examples: Mapping[str, str],
    only: str = "",
) -> dict[str, list[str]]:
    """What each page asks for, by its name, in the browser of whom the client is."""
    async with _browser(url, client.headers["cookie"]) as page:
        return {
            each.name: await calls_of(page, url + each.address(examples))
            for each in pages
            if each.name.startswith(only)
        }


@asynccontextmanager
async def _browser(url: str, cookie: str) -> AsyncGenerator[Page]:
    name, _, value = cookie.partition("=")
    async with async_playwright() as playwright:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        await context.add_cookies([{"name": name, "value": value, "url": url}])
        yield await context.new_page()
        await browser.close()


def figures_of(page: str, alone: TimedPage, at_once: Sequence[float], cpu_ms: float) -> list[Figure]:
    """Figures of one page. Pure."""
    p95 = {call: percentile(took, 0.95) for call, took in alone.of_call.items()}
    slowest = max(p95, key=lambda call: p95[call])
    return [
        Figure(f"{page}, p50", round(percentile(alone.took, 0.5), 1), "ms"),
        Figure(f"{page}, p95", round(percentile(alone.took, 0.95), 1), "ms", most=PAGE_MS_MAX),
        Figure(f"{page}, {AT_ONCE} pages at once, p95", round(percentile(at_once, 0.95), 1), "ms"),
        Figure(f"{page}, slowest of {len(p95)} calls: {ID.sub('ID', slowest)}", round(p95[slowest], 1), "ms"),
        Figure(f"{page}, CPU of the console a time", round(cpu_ms, 1), "ms"),
        Figure(f"{page}, answer", round(alone.bytes / 1024, 1), "KiB"),
    ]
