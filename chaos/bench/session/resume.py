"""`python -m chaos bench resume`: how long a reader that lost its connection waits for text."""

import asyncio
import time
from dataclasses import dataclass, field

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.bench.session.reader import BenchFrame, BenchReader, BenchReading, ReaderOptions, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.testbed import RunningProcess, SessionTestbed, session_testbed

GOAL_MS = 15
LOG_TOKENS = 2_000
ENTRY_TOKENS = 3
BACKGROUND_RATE = 50.0
REQUESTS_PER_SOCKET = 10
PAUSE_SECONDS = 0.02
REPLAY_SECONDS_MAX = 10.0
SPARE_SECONDS = 5.0


@dataclass
class ResumeWaits:
    """Seconds from the start of each TCP connect to the welcome and to the first replayed delta."""

    welcomes: list[float] = field(default_factory=list[float])
    texts: list[float] = field(default_factory=list[float])

    def figures(self, name: str) -> list[Figure]:
        """Of one level."""
        texts, welcomes = self.texts, self.welcomes
        return [
            Figure(f"first replayed byte {name}, p50", 1000 * percentile(texts, 0.5), "ms", most=GOAL_MS),
            Figure(f"first replayed byte {name}, p99", 1000 * percentile(texts, 0.99), "ms"),
            Figure(f"welcome {name}, p50", 1000 * percentile(welcomes, 0.5), "ms"),
            Figure(f"reconnects {name}", len(texts), ""),
        ]


class First:
    """When the first delta came."""

    def __init__(self) -> None:
        self.at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def heard(self, _reading: BenchReading, _frame: BenchFrame, _size: int) -> None:
        """One delta."""
        if not self.at.done():
            self.at.set_result(time.monotonic())


@click.command()
@click.option("--count", default=300, show_default=True, help="Reconnects at each level.")
@click.option("--others", default="0,100", show_default=True, help="Other streams that run meanwhile.")
@json_option
def resume(count: int, others: str, as_json: bool) -> None:
    """Reconnect to first replayed byte (goal: p50 < 15 ms).

    A reader in the middle of an answer of 2,000 tokens is cut off and comes back with its resume token, again
    and again. The time runs from the start of the TCP connect to the first replayed delta.
    """
    show("resume", uvloop.run(_measure(count, [int(n) for n in others.split(",")])), as_json)


async def _measure(count: int, levels: list[int]) -> list[Figure]:
    figures: list[Figure] = []
    for others in levels:
        async with session_testbed() as site:
            gateway = await site.gateway()
            progress(f"{others} other streams")
            waits = await _level(site, gateway, count, others)
        figures += waits.figures(f"beside {others} other streams")
    return figures


async def _level(site: SessionTestbed, gateway: RunningProcess, count: int, others: int) -> ResumeWaits:
    reader = await BenchReader.connect(gateway.url, site.key)
    reading = await reader.send()
    feeder = await Feeder.start(site, 1)
    await feeder.claim(1)
    await feeder.write(LOG_TOKENS, per_entry=ENTRY_TOKENS)
    async with asyncio.timeout(REPLAY_SECONDS_MAX):
        while reading.tokens < LOG_TOKENS:  # noqa: ASYNC110  (once, before anything is measured)
            await asyncio.sleep(0.01)
    crowd, writing = await _crowd(site, gateway, others, count)
    waits = await _reconnect(site, gateway, reader, reading, count)
    check(crowd)
    if writing is not None:
        writing.cancel()
    for each in crowd:
        each.close()
    return waits


async def _crowd(
    site: SessionTestbed, gateway: RunningProcess, others: int, count: int
) -> tuple[list[BenchReader], "asyncio.Task[object] | None"]:
    """Other readers whose answers stream while the reconnects are measured."""
    readers: list[BenchReader] = []
    for at in range(others):
        if at % REQUESTS_PER_SOCKET == 0:
            readers.append(await BenchReader.connect(gateway.url, site.key))
        await readers[-1].send()
    if not others:
        return readers, None
    feeder = await Feeder.start(site, others)
    await feeder.claim(others)
    seconds = count * 2 * PAUSE_SECONDS + SPARE_SECONDS
    return readers, asyncio.create_task(feeder.write(int(seconds * BACKGROUND_RATE), BACKGROUND_RATE))


async def _reconnect(
    site: SessionTestbed, gateway: RunningProcess, reader: BenchReader, reading: BenchReading, count: int
) -> ResumeWaits:
    """Cut off and come back; each time as if half of the log had been applied."""
    waits = ResumeWaits()
    middle = reading.applied // 2
    for _ in range(count):
        token = reader.welcome.result().resume_token
        reader.close()
        await asyncio.sleep(PAUSE_SECONDS)
        resumed = {"token": token, "requests": [{"id": reading.id, "epoch": reading.epoch, "o": middle}]}
        first = First()
        reader = BenchReader(ReaderOptions(extra={"resume": resumed}), first.heard)
        began = time.monotonic()
        await reader.dial(gateway.url, site.key)
        waits.welcomes.append(time.monotonic() - began)
        if reader.welcome.result().resumed != "full":
            raise RuntimeError(f"not resumed: {reader.welcome.result()}")
        async with asyncio.timeout(REPLAY_SECONDS_MAX):
            waits.texts.append(await first.at - began)
        check([reader])
    reader.close()
    return waits
