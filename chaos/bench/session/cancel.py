"""`python -m chaos bench cancel`: how soon the engine stops what nobody wants any more."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import click
import uvloop

from chaos.bench.session.reader import BenchReader, BenchReading, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.testbed import RunningProcess, SessionTestbed, answers, session_testbed

GOAL_MS = 50
REQUESTS_PER_SOCKET = 8
ANSWER_TOKENS = 7_000
FIRST_TOKEN_SECONDS_MAX = 30.0
CANCEL_SECONDS_MAX = 10.0
STEP = 100


@dataclass
class CancelWaits:
    """Seconds since just before the client's write of `cancel`."""

    aborts: list[float] = field(default_factory=list[float])
    ends: list[float] = field(default_factory=list[float])

    def figures(self, streams: int) -> list[Figure]:
        """What is printed of them."""
        aborts, ends = ([1000 * wait for wait in each] for each in (self.aborts, self.ends))
        return [
            Figure("cancel sent to engine.abort, p50", percentile(aborts, 0.5), "ms"),
            Figure("cancel sent to engine.abort, p99", percentile(aborts, 0.99), "ms", most=GOAL_MS),
            Figure("cancel sent to engine.abort, longest", max(aborts), "ms"),
            Figure("cancel sent to `end` received, p50", percentile(ends, 0.5), "ms"),
            Figure("cancel sent to `end` received, p99", percentile(ends, 0.99), "ms"),
            Figure("cancels", len(aborts), ""),
            Figure("answers running", streams, ""),
        ]


@click.command()
@click.option("--count", default=300, show_default=True, help="Cancels, one after the other.")
@click.option("--streams", default=24, show_default=True, help="Answers that run at any moment.")
@click.option("--step-ms", default=15.0, show_default=True, help="The scripted engine's step.")
@json_option
def cancel(count: int, streams: int, step_ms: float, as_json: bool) -> None:
    """Time from a cancel to engine.abort (goal: p99 < 50 ms).

    A real worker runs a scripted engine that notes when its `abort` is called. The time starts just before
    the client writes `cancel` to its socket, so it is more than from the gateway's receipt to the abort.
    """
    show("cancel", uvloop.run(_measure(count, streams, step_ms)).figures(streams), as_json)


async def _measure(count: int, streams: int, step_ms: float) -> CancelWaits:
    async with session_testbed() as site:
        gateway = await site.gateway()
        notes = site.settings.home / "aborts"
        await _worker(site, gateway, notes, streams, step_ms)
        needed = -(-streams // REQUESTS_PER_SOCKET)
        readers = [await BenchReader.connect(gateway.url, site.key) for _ in range(needed)]
        running = deque([await _start(readers[at % needed]) for at in range(streams)])
        waits = CancelWaits()
        for number in range(count):
            reader, reading = running.popleft()
            await _cancel(reader, reading, notes, waits)
            running.append(await _start(reader))
            check(readers)
            if (number + 1) % STEP == 0:
                progress(f"{number + 1} cancels")
        for reader in readers:
            reader.close()
        return waits


async def _worker(
    site: SessionTestbed, gateway: RunningProcess, notes: Path, streams: int, step_ms: float
) -> None:
    """A worker that is ready."""
    program = ["-m", "chaos.bench.session.watched_worker", str(notes), "worker"]
    await site.start(program, worker_slots=2 * streams, test_step_ms=step_ms, test_backend="scripted")
    await answers(gateway, "/readyz")


async def _start(reader: BenchReader) -> tuple[BenchReader, BenchReading]:
    """An answer that has begun."""
    reading = await reader.send(max_tokens=ANSWER_TOKENS, min_tokens=ANSWER_TOKENS)
    async with asyncio.timeout(FIRST_TOKEN_SECONDS_MAX):
        while not reading.tokens:  # noqa: ASYNC110  (not measured)
            await asyncio.sleep(0.005)
    return reader, reading


async def _cancel(reader: BenchReader, reading: BenchReading, notes: Path, waits: CancelWaits) -> None:
    """Cancel one answer, the only one that is cancelled at this time, and find its abort in the notes."""
    before = len(waits.aborts)
    began = time.monotonic_ns()
    reader.tell({"t": "cancel", "id": reading.id})
    async with asyncio.timeout(CANCEL_SECONDS_MAX):
        reason = await reading.done
    waits.ends.append((time.monotonic_ns() - began) / 1e9)
    if reason != "cancelled":
        raise RuntimeError(f"an answer ended by itself: {reason}")
    lines = (await asyncio.to_thread(notes.read_text)).splitlines()
    if len(lines) != before + 1:
        raise RuntimeError(f"{len(lines)} aborts after {before + 1} cancels")
    waits.aborts.append((int(lines[-1]) - began) / 1e9)
