"""How long a backup beside writers takes, and its restore with both proofs."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from admin.backup.backup import BackupCall, BackupReport, backup
from admin.backup.restore import restore
from admin.backup.restore_report import RestoreReport
from billing.usage import ENDED_FIELD, encode, ended_stream
from chaos.bench.billing import TENANTS, billing_testbed, event_of, running_biller
from chaos.bench.seeded_books import events_in, opened, seed_books
from chaos.figures.figures import Figure, json_option, progress, show
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs
from core.redis.client import connect
from core.tasks import EndingTaskGroup

COPY_SECONDS_MAX = 120
WRITTEN_AT_ONCE = 20
WRITE_SECONDS = 0.1
POSTED_SECONDS_MAX = 60.0
MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """A backup and its restore. `written`: events that were posted between the backup's begin and end;
    `least`, `restored`: events that were posted before it began, and that were restored."""

    seeding_seconds: float
    written: int
    copied: BackupReport
    least: int
    restored: int
    report: RestoreReport
    restore_seconds: float


@click.command("backup")
@click.option("--events", default=1_000_000, show_default=True, type=click.IntRange(1000, 10_000_000))
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@click.option(
    "--seeded",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file of books to begin with; where there is none, the seeded books are kept in it.",
)
@json_option
def backup_bench(events: int, postgres: bool, seeded: Path | None, as_json: bool) -> None:
    """A backup of so many usage events beside a biller that posts, and its restore with both proofs.

    The books of 20 tenants are made by the code that posts. While 200 events a second are posted, all is
    copied; then it is restored into an empty home, which ends with `audit verify` and `reconcile` of all.
    """
    if postgres and seeded:
        raise click.UsageError("--seeded is a SQLite file")
    configure_logs(Settings.model_validate({"log_level": "error"}), "bench")
    measured = asyncio.run(_measured("postgres" if postgres else "sqlite", events, seeded))
    show("backup", figures_of(measured), as_json)


def figures_of(measured: Measured) -> list[Figure]:
    """What is printed. Pure."""
    copied, report = measured.copied, measured.report
    wrong = len(report.faults) + len(report.differences)
    return [
        Figure("making the books", round(measured.seeding_seconds, 1), "s"),
        Figure("usage events in the backup's database", copied.manifest.database.rows["usage_event"], ""),
        Figure("posted meanwhile", measured.written, "", least=1),
        Figure("backup's size", round(copied.bytes / MIB, 1), "MiB"),
        Figure("copying the database", round(copied.copy_seconds, 1), "s", most=COPY_SECONDS_MAX),
        Figure("the whole backup, checked", round(copied.seconds, 1), "s"),
        *(Figure(f"restore: {step}", seconds, "s") for step, seconds in report.seconds.items()),
        Figure("the whole restore", round(measured.restore_seconds, 1), "s"),
        Figure(
            "events of before the backup that are missing",
            max(0, measured.least - measured.restored),
            "",
            most=0,
        ),
        Figure("faults and differences after it", wrong, "", most=0),
    ]


async def _measured(dialect: str, events: int, seeded: Path | None) -> Measured:
    with tempfile.TemporaryDirectory(prefix="parley-backup-") as folder:
        target = Path(folder) / "backup"
        async with billing_testbed(dialect) as settings:
            began = time.monotonic()
            tenants = await seed_books(settings, events, seeded)
            seeding_seconds = time.monotonic() - began
            async with _posting(settings, tenants), opened(settings) as db:
                await _until_posted(settings, events)
                least = await events_in(db)
                copied = await backup(settings, BackupCall(target), _clocked())
                written = await events_in(db) - least
        async with billing_testbed(dialect, empty=True) as settings:
            began = time.monotonic()
            report = await restore(target, settings, [], _clocked())
            seconds = time.monotonic() - began
            async with opened(settings) as db:
                restored = await events_in(db)
    return Measured(seeding_seconds, written, copied, least, restored, report, seconds)


def _clocked() -> Callable[[str], None]:
    """Progress with the seconds since now."""
    began = time.monotonic()
    return lambda words: progress(f"{time.monotonic() - began:.0f} s: {words}")


@asynccontextmanager
async def _posting(settings: Settings, tenants: Sequence[str]) -> AsyncGenerator[None]:
    """A biller, and events for it, until the block ends."""
    stop = asyncio.Event()
    async with running_biller(settings), EndingTaskGroup() as group:
        group.create_task(_write(settings, tenants, stop))
        try:
            yield
        finally:
            stop.set()


async def _write(settings: Settings, tenants: Sequence[str], stop: asyncio.Event) -> None:
    redis, number = connect(settings), 0
    try:
        while not stop.is_set():
            pipeline = redis.pipeline(transaction=False)
            for _ in range(WRITTEN_AT_ONCE):
                event = event_of(number, tenants[number % TENANTS], f"meanwhile{number}")
                pipeline.xadd(ended_stream(settings.pool), {ENDED_FIELD: encode(event)})
                number += 1
            await pipeline.execute()
            await asyncio.sleep(WRITE_SECONDS)
    finally:
        await redis.aclose()


async def _until_posted(settings: Settings, events: int) -> None:
    """Until the biller posts."""
    async with opened(settings) as db, asyncio.timeout(POSTED_SECONDS_MAX):
        while await events_in(db) <= events:  # noqa: ASYNC110  (nothing says when)
            await asyncio.sleep(0.2)
