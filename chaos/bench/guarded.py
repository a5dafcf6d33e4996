"""`python -m chaos bench guarded`: what the triggers of tables that only grow cost posting.

Events are posted with the triggers and without, in turns of 200, into one database of each kind; what differs
is the processor time of this process, with that of the Postgres process that serves it.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import click
from sqlalchemy import text

from billing.measured import post
from billing.usage import encode
from chaos.bench.billing import AIMS, event_of, ground
from chaos.figures.figures import Figure, json_option, progress, show
from core.sql.append_only_triggers import guard, unguard
from core.sql.database import Database

BATCH = 100
SLICE = 2 * BATCH
TICKS = os.sysconf("SC_CLK_TCK")
RATIO_MAX = 1.03


@click.command()
@click.option(
    "--events", default=1_500, show_default=True, type=click.IntRange(100), help="A side of a pair."
)
@click.option("--pairs", default=9, show_default=True, type=click.IntRange(3))
@json_option
def guarded(events: int, pairs: int, as_json: bool) -> None:
    """Processor time for each posted event, with triggers over without, on SQLite and on Postgres.

    The median of the pairs; `from` and `to` leave the lowest and the highest pair out.
    """
    figures = [each for dialect in AIMS for each in asyncio.run(_compared(dialect, events, pairs))]
    show("guarded", figures, as_json)


async def _compared(dialect: str, events: int, pairs: int) -> list[Figure]:
    spent: dict[bool, list[float]] = {True: [], False: []}
    async with ground(dialect) as settings:
        database = Database(settings.database_endpoint)
        posted = _counter(database)
        await posted(events)  # imports, first pages
        for number in range(pairs):
            sums = {True: 0.0, False: 0.0}
            for turn in range(max(1, events // SLICE)):  # a busy machine slows both sides alike
                for with_triggers in (True, False) if (number + turn) % 2 else (False, True):
                    async with database.engine.begin() as connection:
                        await connection.run_sync(guard if with_triggers else unguard)
                    sums[with_triggers] += await posted(SLICE)
            for side, seconds in sums.items():
                spent[side].append(seconds)
            progress(f"{dialect}: pair {number + 1} of {pairs}")
        await database.close()
    return _figures(dialect, spent, max(SLICE, events // SLICE * SLICE))


def _figures(dialect: str, spent: Mapping[bool, Sequence[float]], posted_each: int) -> list[Figure]:
    """`spent`: processor seconds of each pair's side with triggers and without."""
    ratios = sorted(with_ / without for with_, without in zip(spent[True], spent[False], strict=True))
    per_event = {side: 1e6 * statistics.median(each) / posted_each for side, each in spent.items()}
    return [
        Figure(f"{dialect}: an event without", per_event[False], "µs"),
        Figure(f"{dialect}: an event with triggers", per_event[True], "µs"),
        Figure(f"{dialect}: with over without", statistics.median(ratios), "", most=RATIO_MAX),
        Figure(f"{dialect}: from", ratios[1], ""),
        Figure(f"{dialect}: to", ratios[-2], ""),
    ]


def _counter(database: Database) -> Callable[[int], Awaitable[float]]:
    """Posts so many events that were never posted; processor seconds of it."""
    done = 0

    async def posted(events: int) -> float:
        nonlocal done
        batches = [
            [encode(event_of(number)) for number in range(first, first + BATCH)]
            for first in range(done, done + events, BATCH)
        ]
        done += len(batches) * BATCH
        before = await _spent(database)
        for batch in batches:
            await post(database, "default", batch)
        return await _spent(database) - before

    return posted


async def _spent(database: Database) -> float:
    """Of this process, and of those of Postgres that serve it."""
    own = time.process_time()
    if database.dialect == "sqlite":
        return own
    async with database.engine.connect() as connection:
        clients = text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        serving = (await connection.execute(clients)).scalars().all()
    return own + sum(_ticks(pid) for pid in serving) / TICKS


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
