"""Takes the pictures of the console that README and docs show: `.venv/bin/python -m scripts.screenshots`.

A console of its own with example tenants (`parley demo seed`), pools whose workers have no engines but hold
requests, and every page that the router lists, light and dark, for a desk and for a phone, each a WebP in
docs/images/console. Requests and figures are drawn from a seed; times are of today. Needs Playwright
(requirements/test.txt).
"""

import argparse
import asyncio
import base64
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import httpx
from playwright.async_api import Browser, Page, async_playwright

from admin.api.callers import OPERATORS_SIDE
from admin.examples.seed import SeedOrder, seed_examples
from billing.api import Stores, list_tenants
from billing.seeding.bulk import write_rows
from billing.shared_commands import active_consumers
from billing.tables.dedicated_pools import GpuCost, PoolInterval, PoolOwner
from billing.tables.pools import PoolRow
from chaos.bench.api_lists.installation import owner_code, running_consoles, signed_in
from chaos.bench.billing import billing_testbed, running_biller
from chaos.bench.console_pages import ConsolePage, change_theme, console_pages, show
from chaos.bench.seeded_books import opened
from chaos.bench.simulated_workers import PoolOfWorkers, SimulatedWorkers
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient, connect
from core.redis.pools import announce_pool
from core.sql.database import Database, TableBase
from scripts.page import CONSOLE, ROOT, build

IMAGES = ROOT / "docs" / "images" / "console"
WIDTHS = {"": (1440, 900), "-phone": (390, 844)}
SCHEMES: Sequence[Literal["light", "dark"]] = ("light", "dark")
VIEWS = {"requests": "?tenant=globex"}  # where the bare page would show less
ORDER = SeedOrder(days=30, tenants=8, requests=120, seed=39)
POOL = "eu-1"  # where the examples' requests were served
HELD = 9  # requests in each worker's hand
HOUR_MS = 3_600_000
HOURS = 72  # that pools were there
GPU, GPU_NANO = "H100", 2_100_000_000
STARTED_MS = 20_000
QUALITY = 82
BYTES_MAX = 150_000


def pools_for(acme: str) -> dict[str, PoolOfWorkers]:
    """Two that are shared and one that acme has for itself."""
    return {
        POOL: PoolOfWorkers(6, "qwen3-8b", waiting=0),
        "eu-2": PoolOfWorkers(4, "llama-3.3-70b", waiting=0),
        "acme-1": PoolOfWorkers(2, "qwen3-8b", waiting=0, tenant=acme),
    }


@asynccontextmanager
async def example_console() -> AsyncGenerator[tuple[httpx.AsyncClient, dict[str, str]]]:
    """A console that shows examples: a client of it that is signed in, and an example of each parameter of
    its pages' paths."""
    side = OPERATORS_SIDE.name
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed("sqlite"))
        settings = settings.model_copy(update={"pool": POOL})
        redis = connect(settings)
        stack.push_async_callback(redis.aclose)
        db = await stack.enter_async_context(opened(settings))
        async with running_biller(settings):
            tenants = await seeded(settings, db, redis)
        pools = pools_for(tenants["acme"])
        await write_pools(db, pools)
        await stack.enter_async_context(running_biller(settings))
        console = (await stack.enter_async_context(running_consoles(settings, [side])))[side]
        client = await stack.enter_async_context(signed_in(console.url, await owner_code(settings)))
        while not await books_were_compared(client):  # noqa: ASYNC110  (nothing says when)
            await asyncio.sleep(0.5)
        simulated = SimulatedWorkers(redis, settings, pools)
        await simulated.begin(list(tenants.values()), HELD)
        await stack.enter_async_context(simulated.beating())
        ended = (await client.get("/api/ended-requests?tenant=acme&limit=1")).json()["items"][0]["id"]
        request = f"{ended}?tenant={tenants['acme']}"
        yield client, {"tenant": "acme", "pool": POOL, "request": request}


async def books_were_compared(client: httpx.AsyncClient) -> bool:
    """Whether a biller has since the examples were made: each does once a minute."""
    checks = (await client.get("/api/reconciliation")).json()["checks"]
    return checks[0]["state"] != "unknown"


async def seeded(settings: Settings, db: Database, redis: RedisClient) -> Mapping[str, str]:
    """Make the examples, which a running biller books: ids of their tenants by name."""
    await announce_pool(redis, settings, POOL)
    while not await active_consumers(redis, POOL, STARTED_MS):  # noqa: ASYNC110  (nothing says when)
        await asyncio.sleep(0.1)
    await seed_examples(Stores(settings, db, lambda: redis), ORDER, print, lambda _: None)
    return {each.name: each.tenant_id for each in await list_tenants(db)}


async def write_pools(db: Database, pools: Mapping[str, PoolOfWorkers]) -> None:
    """What the pools should be, and their workers' last hours."""
    now = now_ms()
    begun = (now // HOUR_MS - HOURS) * HOUR_MS
    rows: list[TableBase] = [
        GpuCost(gpu_type=GPU, region="", valid_from_ms=begun, hour_nano=GPU_NANO, created_ms=begun)
    ]
    for name, of in pools.items():
        rows.append(
            PoolRow(
                pool=name,
                model=of.model,
                version="1",
                workers=of.workers,
                labels={},
                tenant_id=of.tenant,
                made_ms=begun,
            )
        )
        if of.tenant:
            rows.append(PoolOwner(pool=name, from_ms=now, tenant_id=of.tenant, created_ms=now))
        rows += [
            hour_of(name, worker, hour)
            for worker in range(of.workers)
            for hour in range(begun, now - HOUR_MS, HOUR_MS)
        ]
    await write_rows(db, rows)


def hour_of(pool: str, worker: int, hour_ms: int) -> PoolInterval:
    """A worker's hour, two thirds of it busy."""
    return PoolInterval(
        pool=pool,
        worker=f"{pool}-w{worker}",
        from_ms=hour_ms,
        to_ms=hour_ms + HOUR_MS,
        busy_ms=HOUR_MS * 2 // 3,
        hour_ms=hour_ms,
        device=f"{pool}-w{worker}",
        gpu_type=GPU,
        gpus=1,
        state="ready",
        counted=True,
    )


async def take(folder: Path, only: str) -> None:
    """Take every picture into the folder, of pages whose name begins so."""
    async with example_console() as (client, examples), async_playwright() as playwright:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        flags = ["--no-sandbox", "--font-render-hinting=none"]
        browser = await playwright.chromium.launch(executable_path=path, args=flags)
        for suffix, size in WIDTHS.items():
            page = await signed_in_page(browser, client, size)
            for each in console_pages():
                if each.name.startswith(only):
                    address = each.address(examples) + VIEWS.get(each.name, "")
                    await take_page(page, each, str(client.base_url.join(address)), folder, suffix)
        await browser.close()


async def signed_in_page(browser: Browser, client: httpx.AsyncClient, size: tuple[int, int]) -> Page:
    """A tab that is signed in as the client is."""
    context = await browser.new_context(viewport={"width": size[0], "height": size[1]}, locale="en-GB")
    name, _, value = client.headers["cookie"].partition("=")
    await context.add_cookies([{"name": name, "value": value, "url": str(client.base_url)}])
    return await context.new_page()


async def take_page(page: Page, of: ConsolePage, address: str, folder: Path, suffix: str) -> None:
    """Both themes of a page."""
    protocol = await page.context.new_cdp_session(page)  # Playwright itself knows no WebP
    await show(page, address)
    for scheme in SCHEMES:
        await change_theme(page, scheme)
        told = await protocol.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        picture, file = base64.b64decode(told["data"]), folder / f"{of.name}-{scheme}{suffix}.webp"
        assert len(picture) < BYTES_MAX, f"{file.name} has {len(picture):,} bytes"
        file.write_bytes(picture)
        print(f"{len(picture) / 1000:7.1f} kB  {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--into", type=Path, default=IMAGES, help="the folder for them")
    parser.add_argument("--page", default="", help="only pages whose name begins so")
    given = parser.parse_args()
    build(CONSOLE)
    given.into.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(given.into, given.page))
