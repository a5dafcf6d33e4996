"""What the books cost: usage events posted in a second, and a month's view over ten million of them."""

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import msgspec
from sqlalchemy import text

from billing.api import (
    Calendar,
    Counts,
    Facet,
    GroupBy,
    PeriodWindow,
    PinnedPrices,
    UsageBucket,
    UsageEvent,
    UsageOwner,
    UsageQuestion,
    create_tenant,
    rate,
    seal,
    sealed_admission_of,
    usage_in,
    usage_page,
)
from billing.usage import ENDED_FIELD, encode, ended_stream
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation import postgres
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import connect
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.runtime.leash import spawn
from core.signing.signed_text import Keyring
from core.sql.database import Database, migrate

TENANTS = 20
SECRET = "bench" * 8
PRICES = PinnedPrices(
    book="default", version=1, input_nano=100_000_000, cached_input_nano=25_000_000, output_nano=400_000_000
)
HOUR_MS = 3_600_000
MONTH = PeriodWindow(1_788_220_800_000, 1_790_812_800_000)  # September 2026, UTC
POST_SECONDS_MAX = 600.0
STOP_SECONDS_MAX = 60.0
VIEWS = 7
VIEW_MS_MAX, PAGE_MS_MAX = 300, 500
GROUPINGS = (GroupBy.NOTHING, GroupBy.PROJECT, GroupBy.MODEL, GroupBy.KEY, GroupBy.USER, GroupBy.DAY)
PAGES: tuple[tuple[tuple[Facet, ...], UsageBucket | None], ...] = (
    ((Facet.MODEL,), None),
    ((Facet.PROJECT, Facet.MODEL), UsageBucket.DAY),
    ((Facet.USER, Facet.KEY), None),
)
PAGE_ROWS = 1000
PAGE_SECONDS_MAX = 30.0
GOALS = {"sqlite": 500.0, "postgres": 2000.0}


@click.command()
@click.option("--events", default=20_000, show_default=True, type=click.IntRange(1000, 1_000_000))
@json_option
def posting(events: int, as_json: bool) -> None:
    """Usage events posted in a second by one `parley biller`, on SQLite and on Postgres.

    The events of 20 tenants wait on the pool's stream; the biller writes events, lines, ledger and rollups, a
    transaction a batch, and settles each with its tenant. From the first batch's commit to the last.
    """
    figures = [asyncio.run(_posted(dialect, events)) for dialect in GOALS]
    show("posting", figures, as_json)


async def _posted(dialect: str, events: int) -> Figure:
    async with billing_testbed(dialect) as settings:
        redis = connect(settings)
        try:
            for first in range(0, events, 1000):
                pipeline = redis.pipeline(transaction=False)
                for number in range(first, min(events, first + 1000)):
                    pipeline.xadd(ended_stream(settings.pool), {ENDED_FIELD: encode(event_of(number))})
                await pipeline.execute()
            progress(f"{dialect}: {events} events wait")
            return await _timed(dialect, settings, events)
        finally:
            await redis.aclose()


async def _timed(dialect: str, settings: Settings, events: int) -> Figure:
    database = Database(settings.database_endpoint)
    try:
        async with running_biller(settings), asyncio.timeout(POST_SECONDS_MAX):
            while (facts := await _posted_so_far(database))[0] < events:  # noqa: ASYNC110  (nothing says when)
                await asyncio.sleep(0.2)
    finally:
        await database.close()
    return _rate(dialect, events, facts)


@asynccontextmanager
async def running_biller(settings: Settings) -> AsyncGenerator[None]:
    """A `parley biller` of these settings, until the block ends."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")},
        "PARLEY_HOME": str(settings.home),
        "PARLEY_DATABASE_URL": settings.database_endpoint,
        "PARLEY_REDIS_URL": settings.redis_endpoint,
        "PARLEY_SECRET": SECRET,
    }
    log = settings.home / "biller.log"
    biller = await spawn([sys.executable, "-m", "core.cli", "biller"], environment, log)
    try:
        yield
    finally:
        biller.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await biller.wait()
        finally:
            biller.kill()
            await biller.wait()


def _rate(dialect: str, events: int, facts: tuple[int, int, int, int]) -> Figure:
    """Of all but the first batch, whose begin nobody saw."""
    _, first_batch, first_ms, last_ms = facts
    value = (events - first_batch) / max(1, last_ms - first_ms) * 1000
    return Figure(f"usage events posted, {dialect}", round(value, 1), "/s", least=GOALS[dialect])


async def _posted_so_far(database: Database) -> tuple[int, int, int, int]:
    """Rows, those of the first batch, and when the first and the last batch began."""
    statement = text(
        "SELECT count(*), coalesce(sum(CASE WHEN posted_ms = low THEN 1 ELSE 0 END), 0), min(low), "
        "max(posted_ms) FROM usage_event, (SELECT min(posted_ms) AS low FROM usage_event) AS first"
    )
    async with database.engine.connect() as connection:
        return tuple(int(value or 0) for value in (await connection.execute(statement)).one())  # type: ignore[return-value]


def event_of(number: int, tenant: str = "", request: str = "") -> UsageEvent:
    """One of many that are alike: of some tenants, models, projects and users. `tenant`, `request`: instead
    of those by its number."""
    counts = Counts(
        input_uncached=100 + number % 50, input_cached=number % 3 * 16, output_text=200 + number % 90
    )
    event = UsageEvent(
        tenant=tenant or f"tenant{number % TENANTS}",
        request=request or f"r{number}",
        pool="default",
        model=f"model{number % 3}",
        fingerprint="bench",
        owner=UsageOwner(project=f"p{number % 7}", key=f"k{number % 31}", user=f"u{number % 101}"),
        accepted_ms=now_ms(),
        ended_ms=now_ms(),
        reason="stop",
        prices=PRICES,
        input_uncached=counts.input_uncached,
        input_cached=counts.input_cached,
        output_text=counts.output_text,
        cost_nano=rate(counts, PRICES)[1],
        claims=1,
        asked_input=counts.input_uncached + counts.input_cached,
        asked_output=counts.output_text,
    )
    return msgspec.structs.replace(event, seal=seal(sealed_admission_of(event), Keyring(SECRET.encode())))


@click.command("month-view")
@click.option("--events", default=10_000_000, show_default=True, type=click.IntRange(1000, 100_000_000))
@click.option("--users", default=1000, show_default=True)
@json_option
def month_view(events: int, users: int, as_json: bool) -> None:
    """How long a tenant's month takes to be added up from the rollups on Postgres, by each grouping.

    And how long a page of the usage API takes, which may be by two facts.

    The rollups are those of so many requests in a month: of 20 projects, 200 keys, five models and so many
    users, who work in bursts of 25 requests to one model.
    """
    show("month view", asyncio.run(_views(events, users)), as_json)


async def _views(events: int, users: int) -> list[Figure]:
    async with billing_testbed("postgres") as settings:
        database = Database(settings.database_endpoint)
        try:
            tenant = (await create_tenant(database, "bench")).tenant_id
            progress(f"rolling up {events:,} requests")
            rows = await _fill(database, tenant, events, users)
            progress(f"{rows:,} rollups")
            views = [await _view(database, tenant, by) for by in GROUPINGS]
            pages = [await _page(database, tenant, by, bucket) for by, bucket in PAGES]
            return [Figure("rollups", rows, ""), *views, *pages]
        finally:
            await database.close()


async def _view(database: Database, tenant: str, by: GroupBy) -> Figure:
    took: list[float] = []
    for _ in range(VIEWS):
        began = time.monotonic()
        await usage_in(database, tenant, MONTH, by, ZoneInfo("UTC"))
        took.append((time.monotonic() - began) * 1000)
    return _month(by, took)


def _month(by: GroupBy, took: Sequence[float]) -> Figure:
    """Milliseconds of each view."""
    median = round(statistics.median(took), 1)
    return Figure(f"month by {by.value}, median of {VIEWS}", median, "ms", most=VIEW_MS_MAX)


async def _page(database: Database, tenant: str, by: tuple[Facet, ...], bucket: UsageBucket | None) -> Figure:
    took: list[float] = []
    question = UsageQuestion(tenant, MONTH, Calendar(ZoneInfo("Europe/Berlin")), by, bucket)
    for _ in range(VIEWS):
        began = time.monotonic()
        await usage_page(database, question, PAGE_ROWS, PAGE_SECONDS_MAX)
        took.append((time.monotonic() - began) * 1000)
    return _read(by, bucket, took)


def _read(by: tuple[Facet, ...], bucket: UsageBucket | None, took: Sequence[float]) -> Figure:
    """Milliseconds of each page."""
    what = " and ".join([*by, *([bucket] if bucket else [])])
    name = f"usage API, page of {PAGE_ROWS} by {what}, median of {VIEWS}"
    return Figure(name, round(statistics.median(took), 1), "ms", most=PAGE_MS_MAX)


async def _fill(database: Database, tenant: str, events: int, users: int) -> int:
    rollups = """
        INSERT INTO rollup_hour
        SELECT :tenant, CAST(:start AS BIGINT) + hour * CAST(:hour_ms AS BIGINT), 'p' || key % 20,
               'c' || key % 4, 'u' || person, 'k' || key, 'm' || model, 'default', count(*), 0,
               sum(100), sum(20), sum(200), 0, sum(90000)
        FROM (SELECT chosen(1) % CAST(:hours AS BIGINT) AS hour, chosen(2) % CAST(:users AS BIGINT) AS person,
                     chosen(2) % CAST(:users AS BIGINT) % 200 AS key, chosen(3) % 5 AS model
              FROM (SELECT n / 25 AS burst FROM generate_series(CAST(0 AS BIGINT), :events - 1) AS n)
                   AS bursts) AS requests
        GROUP BY hour, person, key, model
        """
    # A number from 0 that looks random, the same for each request of a burst.
    drawn = re.sub(r"chosen\((\d)\)", r"(hashint8extended(burst, \1) & 281474976710655)", rollups)
    facts = {
        "tenant": tenant,
        "start": MONTH.start_ms,
        "hour_ms": HOUR_MS,
        "hours": (MONTH.end_ms - MONTH.start_ms) // HOUR_MS,
        "users": users,
        "events": events,
    }
    async with database.engine.begin() as connection:
        await connection.execute(text(drawn), facts)
    async with database.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("VACUUM ANALYZE rollup_hour"))
        return int((await connection.execute(text("SELECT count(*) FROM rollup_hour"))).scalar_one())


@asynccontextmanager
async def billing_testbed(dialect: str, empty: bool = False) -> AsyncGenerator[Settings]:
    """A migrated database of this kind and a Valkey, both new; `empty`: a database without tables, and no
    Valkey."""
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
        url = f"sqlite+aiosqlite:///{home / 'parley.db'}"
        if dialect == "postgres":
            socket = stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-postgres-"))
            running = postgres.running_postgres(Path(socket))
            folder = await asyncio.to_thread(stack.enter_context, running)
            url = postgres.url(folder, "postgres")
        settings = Settings.model_validate({"home": home, "database_url": url, "secret": SECRET})
        ensure_home(settings)
        if not empty:
            valkey = EmbeddedValkey(settings)
            await valkey.start()
            stack.push_async_callback(valkey.stop)
            await migrate(url)
        yield settings
