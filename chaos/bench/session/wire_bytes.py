"""`python -m chaos bench wire`: what a token costs on the wire, and whether batching delays the first."""

import asyncio
import time
from dataclasses import dataclass

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.bench.session.prose import BYTES_PER_TOKEN
from chaos.bench.session.reader import (
    JSON,
    MSGPACK,
    BenchFrame,
    BenchReader,
    BenchReading,
    ReaderOptions,
    check,
)
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.testbed import RunningProcess, SessionTestbed, session_testbed

# Bytes a token at most, by tokens a second and subprotocol.
GOALS = {(300, JSON): 16, (300, MSGPACK): 13, (67, JSON): 60, (67, MSGPACK): 36}
SOCKETS = 4
END_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.01
REQUESTS_PER_SOCKET = 10


@dataclass(frozen=True)
class WireCase:
    """One way to read at one pace."""

    rate: int
    subprotocol: str
    batch: bool

    @property
    def name(self) -> str:
        """As it is printed."""
        encoding = self.subprotocol.rpartition(".")[2]
        return f"{self.rate} tokens/s, {encoding}{', cap batch' if self.batch else ''}"


@dataclass
class Weighed:
    """Bytes that sockets received for their answers, from `accepted` to `end`; `deltas`: how many."""

    tokens: int = 0
    size: int = 0
    deltas: int = 0

    def heard(self, _reading: BenchReading, _frame: BenchFrame, _size: int) -> None:
        """One delta."""
        self.deltas += 1

    def figures(self, case: WireCase) -> list[Figure]:
        """Of one way to read."""
        most = GOALS[case.rate, case.subprotocol]
        return [
            Figure(case.name, self.size / self.tokens, "bytes/token", most=most),
            Figure("   tokens a delta", self.tokens / self.deltas, ""),
        ]


@click.command()
@click.option("--seconds", default=10.0, show_default=True, help="How long each stream lasts.")
@click.option("--firsts", default=200, show_default=True, help="First tokens that are timed.")
@json_option
def wire(seconds: float, firsts: int, as_json: bool) -> None:
    """Bytes a token on the wire, and the first token's delay.

    JSON and msgpack, at 300 and at 67 tokens/s, without and with cap `batch`.

    Counts every byte that a client's socket receives from an answer's `accepted` to its `end`, both and the
    WebSocket framing included, for real token texts. The delay runs from just before the append
    of an answer's first text to its delta at the client.
    """
    show("wire", uvloop.run(_measure(seconds, firsts)), as_json)


async def _measure(seconds: float, firsts: int) -> list[Figure]:
    figures = [Figure("text itself", BYTES_PER_TOKEN, "bytes/token")]
    async with session_testbed() as site:
        gateway = await site.gateway()
        feeder = await Feeder.start(site, max(SOCKETS, firsts))
        for rate, subprotocol in GOALS:
            for batch in (False, True):
                case = WireCase(rate, subprotocol, batch)
                progress(case.name)
                figures += (await _weigh(site, gateway, feeder, case, seconds)).figures(case)
        for batch in (False, True):
            progress("first tokens")
            delays = await _first_delays(site, gateway, feeder, firsts, batch)
            name = f"append of the first text to its delta{', cap batch' if batch else ''}"
            figures.append(Figure(f"{name}, p50", 1000 * percentile(delays, 0.5), "ms"))
            figures.append(Figure(f"{name}, p99", 1000 * percentile(delays, 0.99), "ms"))
    return figures


def _terms(subprotocol: str, batch: bool) -> ReaderOptions:
    return ReaderOptions(subprotocol, ["batch"] if batch else [])


async def _weigh(
    site: SessionTestbed, gateway: RunningProcess, feeder: Feeder, case: WireCase, seconds: float
) -> Weighed:
    """One answer on each of a few sockets, from its acceptance to its end."""
    found = Weighed()
    terms = _terms(case.subprotocol, case.batch)
    readers = [await BenchReader.connect(gateway.url, site.key, terms, found.heard) for _ in range(SOCKETS)]
    before = sum(reader.socket.bytes_in for reader in readers)
    readings = [await reader.send() for reader in readers]
    await feeder.claim(SOCKETS)
    await feeder.write(int(seconds * case.rate), case.rate)
    await feeder.end()
    async with asyncio.timeout(END_SECONDS_MAX):
        await asyncio.gather(*(reading.done for reading in readings))
    check(readers)
    found.size = sum(reader.socket.bytes_in for reader in readers) - before
    found.tokens = sum(reading.tokens for reading in readings)
    for reader in readers:
        reader.close()
    return found


async def _first_delays(
    site: SessionTestbed, gateway: RunningProcess, feeder: Feeder, firsts: int, batch: bool
) -> list[float]:
    """Seconds from the append of a first text to its arrival, one answer after the other."""
    arrived: dict[str, float] = {}

    def heard(reading: BenchReading, _frame: BenchFrame, _size: int) -> None:
        arrived[reading.id] = time.monotonic()

    readers: list[BenchReader] = []
    for at in range(firsts):
        if at % REQUESTS_PER_SOCKET == 0:
            readers.append(await BenchReader.connect(gateway.url, site.key, _terms(JSON, batch), heard))
        await readers[-1].send()
    await feeder.claim(firsts)
    appended = await feeder.trickle(PAUSE_SECONDS)
    await feeder.end()
    async with asyncio.timeout(END_SECONDS_MAX):
        await asyncio.gather(*(each.done for reader in readers for each in reader.by_id.values()))
    check(readers)
    for reader in readers:
        reader.close()
    return [arrived[id] - at for id, at in appended.items()]
