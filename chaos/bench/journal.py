"""`python -m chaos bench journal`: what the journal of ends costs the process that writes it.

The same ends are appended to a Valkey once with a journal and once without, in turn; what differs is the
processor time of this process, all of its threads. Tokens without an end never touch the journal.
"""

import asyncio
import time
from pathlib import Path

import click
import uvloop

from billing.api import PinnedPrices, UsageEvent, UsageOwner
from billing.usage import encode
from chaos.bench.queue import FINGERPRINT, FLUSH_REQUESTS, WaitingPool, lines
from chaos.figures.figures import Figure, json_option, show
from chaos.figures.samples import percentile
from core.clock import now_ms
from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from engine.api import Append, Claim, Entry, EntryKind, Journal, PoolQueue, make_journal

ROUNDS = 6


@click.command()
@click.option("--ends", default=9_600, show_default=True, type=click.IntRange(960), help="In all.")
@json_option
def journal(ends: int, as_json: bool) -> None:
    """Processor time for each end, with a journal and without, and how long a flush of 32 ends takes."""
    figures = uvloop.run(_measure(ends // (2 * ROUNDS * FLUSH_REQUESTS)))
    show("journal", figures, as_json)


async def _measure(flushes: int) -> list[Figure]:
    cpu: dict[bool, list[float]] = {True: [], False: []}
    took: dict[bool, list[float]] = {True: [], False: []}
    async with lines() as (redis, settings):
        line = WaitingPool(redis, settings)
        for number in range(2 * ROUNDS):
            kept = bool(number % 2)
            await line.fill(10, flushes * FLUSH_REQUESTS)
            claims = [claim for _ in range(2 * flushes) for claim in await line.claim(FLUSH_REQUESTS // 2)]
            spent, times = await _round(line, settings, claims, kept)
            cpu[kept].append(1e6 * spent / len(claims))
            took[kept] += times
        size = _bytes(settings.home)
    with_, without = (percentile(cpu[kept], 0.5) for kept in (True, False))
    return [
        Figure("processor for an end, without", without, "µs"),
        Figure("processor for an end, with a journal", with_, "µs"),
        Figure("the journal's part", with_ - without, "µs"),
        *(
            Figure(f"flush of {FLUSH_REQUESTS} ends, {name}: p50", percentile(took[kept], 0.5), "ms")
            for kept, name in ((False, "without"), (True, "with a journal"))
        ),
        Figure("on disk for an end", size / (ROUNDS * flushes * FLUSH_REQUESTS), "bytes"),
    ]


async def _round(
    line: WaitingPool, settings: Settings, claims: list[Claim], kept: bool
) -> tuple[float, list[float]]:
    """Processor seconds of this process, and milliseconds of each flush, until all is written."""
    own = make_journal(settings, "bench", f"w{time.monotonic_ns()}") if kept else None
    queue = PoolQueue(line.queue.redis, "bench", settings, ended=own.add if own else None)
    items = [_end(claim) for claim in claims]
    times: list[float] = []
    before = time.process_time()
    running = asyncio.create_task(_run(own))
    for first in range(0, len(items), FLUSH_REQUESTS):
        began = time.perf_counter()
        await queue.append("worker", items[first : first + FLUSH_REQUESTS])
        times.append(1000 * (time.perf_counter() - began))
    await cancel_tasks([running])
    return time.process_time() - before, times


async def _run(own: Journal | None) -> None:
    if own is not None:
        await own.run()


def _end(claim: Claim) -> Append:
    now = now_ms()
    event = UsageEvent(
        tenant=claim.tenant,
        request=claim.id,
        pool="bench",
        model="bench",
        fingerprint=FINGERPRINT,
        owner=UsageOwner(project="bench", key="bench", user="somebody"),
        accepted_ms=now,
        ended_ms=now,
        reason="stop",
        prices=PinnedPrices(book="bench", version=1, input_nano=1, cached_input_nano=1, output_nano=1),
        input_uncached=64,
        output_text=1,
        seal=b"s" * 16,
    )
    return Append(
        tenant=claim.tenant,
        id=claim.id,
        ck=claim.ck,
        n0=0,
        o0=claim.o,
        raw=0,
        visible=0,
        tokens=b"\x01\x00\x00\x00",
        entries=[Entry(claim.o + 1, EntryKind.END, i=1, v=b"{}")],
        end=encode(event),
    )


def _bytes(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "ends").iterdir())
