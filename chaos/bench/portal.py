"""`python -m chaos bench portal`: how soon the tenants' portal has the data of its pages, and of what their
bars and rows lead to, in books of millions of requests.

Each page of the portal's router is opened in Chromium once, as an admin of the largest tenant, and what it
asked for is asked again and again. Then each read by which the portal shows money and requests is called with
each of its choices. Most requests are in the books as sums by the hour; those that one can look into have all
their rows.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from multiprocessing import get_context

import click
import httpx
from sqlalchemy import text

from admin.api.callers import TENANTS_SIDE
from billing.seeding.bulk import refresh_statistics
from billing.seeding.bulk_usage import write_bulk_usage
from billing.seeding.fill import FilledInstallation, seed_settings
from billing.seeding.shapes import SeedShape
from billing.seeding.tenant_rows import UsageSource
from billing.seeding.usage_posting import shared_out
from chaos.bench.api_lists.cases import answers_at_once
from chaos.bench.api_lists.installation import admin_code, running_consoles, signed_in
from chaos.bench.api_lists.timing import TimedCase, Visit, cases_of, time_one_by_one
from chaos.bench.billing import billing_testbed
from chaos.bench.console import PAGE_MS_MAX, TimedPage, asked_by_pages, page_figures
from chaos.bench.console_pages import console_pages
from chaos.bench.seeded_books import events_in, opened
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from core.clock import iso_time, now_ms
from core.configuration.settings import Settings
from core.operations import Operation, Role, registered

PROCESSES = 2  # that write; SQLite has one writer
SAY_SECONDS = 15.0
DAY_MS = 86_400_000
# What the portal reads money and requests by. One that is not registered is said.
READS = (
    *(
        "spend.summary",
        "spend.series",
        "spend.bridge",
        "spend.cache",
        "spend.refusals",
        "spend.errors",
        "spend.pools",
    ),
    *("charges.day", "charges.explain", "chargeback.report", "usage.statement", "keys.list"),
    *("requests.find", "requests.find_refused", "requests.explain"),
)
GROUPS = ("spend.", "charges.", "chargeback.")  # and what else is of these


@click.command("portal")
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(3, 10_000))
@click.option("--events", default=10_000_000, show_default=True, type=click.IntRange(30, 100_000_000))
@click.option(
    "--looked-into",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(0),
    help="So many of them have all their rows; of the others there are sums by the hour.",
)
@click.option("--calls", default=50, show_default=True, type=click.IntRange(1), help="Of each page and read.")
@click.option("--only", default="", help="Only pages and reads whose name begins so.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def portal(
    tenants: int, events: int, looked_into: int, calls: int, only: str, postgres: bool, as_json: bool
) -> None:
    """Ask for what the tenants' portal shows, again and again, as an admin of the largest tenant.

    The portal is a process of its own; one page asks, then several at once. A read's line is its slowest
    case.
    """
    dialect = "postgres" if postgres else "sqlite"
    shape, part = SeedShape(tenants, events, now_ms()), min(1.0, looked_into / events)
    figures, facts = asyncio.run(_measured(dialect, shape, part, calls, only))
    many = f"{events:,} requests, of which {round(events * part):,} have all their rows"
    show(f"portal, {dialect}, {tenants:,} tenants, {many}", figures, as_json, facts)


async def _measured(
    dialect: str, shape: SeedShape, part: float, calls: int, only: str
) -> tuple[list[Figure], dict[str, object]]:
    side = TENANTS_SIDE.name
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed(dialect))
        began = time.monotonic()
        seeded, rows = await _seed(settings, shape, part)
        figures = [Figure("seeding", round(time.monotonic() - began, 1), "s")]
        figures += [Figure(f"rows of {name}", number, "") for name, number in rows.items()]
        portal = (await stack.enter_async_context(running_consoles(settings, [side])))[side]
        largest = seeded.sources[0].tenant
        code = admin_code(settings, seeded, largest)
        client = await stack.enter_async_context(signed_in(portal.url, code))
        examples = {"tenant": largest, "request": await _a_request(client)}
        asked = await asked_by_pages(portal.url, client, console_pages("portal"), examples, only)
        for name, page in asked.items():
            if page:
                figures += await page_figures(name, TimedPage(client, page), calls, portal.pid)
        visit = Visit("admin", client, _reads(only), _known(largest, examples["request"], shape.end_ms))
        cases, left = await cases_of(visit)
        await time_one_by_one(cases, calls)
        missing = sorted(set(READS) - {each for each in registered()})
        if missing:
            progress(f"not registered: {', '.join(missing)}")
        figures += read_figures(cases)
    return figures, {"cases": [_facts(each) for each in cases], "not called": left, "not registered": missing}


async def _seed(
    settings: Settings, shape: SeedShape, part: float
) -> tuple[FilledInstallation, dict[str, int]]:
    """Fill the empty database; the numbers of rows of the tables that grow with requests."""
    async with opened(settings) as db:
        seeded = await seed_settings(db, shape, progress)
        processes = 1 if db.dialect == "sqlite" else PROCESSES
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            parts = [
                asyncio.get_running_loop().run_in_executor(pool, _write_part, settings, shape, each, part)
                for each in shared_out(seeded.sources, processes)
            ]
            while (await asyncio.wait(parts, timeout=SAY_SECONDS))[1]:
                progress(f"{await events_in(db):,} requests have their rows")
            await asyncio.gather(*parts)
        await refresh_statistics(db, vacuum=True)
        async with db.engine.connect() as connection:
            tables = ("rollup_hour", "usage_event", "usage_line", "refusal_hour")
            counts = [await connection.execute(text(f"SELECT count(*) FROM {name}")) for name in tables]
            return seeded, {name: each.scalar_one() for name, each in zip(tables, counts, strict=True)}


def _write_part(settings: Settings, shape: SeedShape, sources: Sequence[UsageSource], part: float) -> None:
    asyncio.run(_write(settings, shape, sources, part))


async def _write(settings: Settings, shape: SeedShape, sources: Sequence[UsageSource], part: float) -> None:
    async with opened(settings) as db:
        await write_bulk_usage(db, shape, sources, settings.pool, part)


async def _a_request(client: httpx.AsyncClient) -> str:
    """The id of the last request that ended."""
    reply = await client.get("/api/ended-requests", params={"limit": "1", "since": "60d"})
    items = reply.raise_for_status().json()["items"]
    return items[0]["id"] if items else "none"


def _reads(only: str) -> list[Operation]:
    """Those that an admin may call."""
    return [
        each
        for name, each in registered().items()
        if (name in READS or name.startswith(GROUPS)) and name.startswith(only)
        if not each.writes and answers_at_once(each) and Role.ADMIN in each.may
    ]


def _known(tenant: str, request: str, now: int) -> dict[str, list[str]]:
    """Values of fields that no list tells. Months: this one and the last."""
    day, month_ago = str(iso_time(now - 2 * DAY_MS))[:10], str(iso_time(now - 30 * DAY_MS))[:7]
    return {
        "tenant": [tenant],
        "request": [request],
        "day": [day],
        "date": [day],
        "month": [month_ago],
        "rows": ["project"],
        "columns": ["model"],
    }


def read_figures(cases: Sequence[TimedCase]) -> list[Figure]:
    """Of each read its slowest case. Pure."""
    slowest: dict[str, tuple[float, str]] = {}
    for each in cases:
        name = each.case.operation.name
        took = (percentile(each.took_ms, 0.95), each.case.shown)
        slowest[name] = max(slowest.get(name, took), took)
    return [
        Figure(f"{name}{f' ({shown})' if shown else ''}, p95", round(ms, 1), "ms", most=PAGE_MS_MAX)
        for name, (ms, shown) in sorted(slowest.items())
    ]


def _facts(each: TimedCase) -> Mapping[str, object]:
    p95 = round(percentile(each.took_ms, 0.95), 1)
    return {"target": each.case.target, "p95_ms": p95, "bytes": each.bytes}
