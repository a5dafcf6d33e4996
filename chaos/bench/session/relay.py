"""`python -m chaos bench relay`: how many tokens a second one gateway core relays."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.bench.session.reader import BenchFrame, BenchReader, BenchReading, ReaderOptions, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.measure import CpuUsage
from chaos.installation.testbed import RunningProcess, SessionTestbed, session_testbed

GOAL = 50_000
REQUESTS_PER_SOCKET = 10
# A stream's deltas come at most this often (docs/protocol.md, "Window and acknowledgement").
DELTA_SECONDS, BATCH_SECONDS = 0.02, 0.04
LEAD_SECONDS = 1.0
SETTLE_SECONDS = 2.0
END_SECONDS_MAX = 30.0


@dataclass
class RelayTally:
    """What the readers have seen. `lags`: seconds between a delta's last token being due and its arrival."""

    rate: float
    at: float = 0.0
    tokens: int = 0
    deltas: int = 0
    lags: list[float] = field(default_factory=list[float])
    _seen: dict[str, int] = field(default_factory=dict[str, int])

    def heard(self, reading: BenchReading, frame: BenchFrame, _size: int) -> None:
        """One delta."""
        self.tokens += frame.i - self._seen.get(reading.id, 0)
        self._seen[reading.id] = frame.i
        self.deltas += 1
        if not self.deltas % 16:
            self.lags.append(time.monotonic() - self.at - frame.i / self.rate)


@dataclass(frozen=True)
class Relayed:
    """One run, from two seconds after its start to its last token."""

    tokens: int
    deltas: int
    seconds: float
    before: CpuUsage
    after: CpuUsage
    lags: Sequence[float]
    fed: dict[str, float]

    def figures(self, streams: int, pace: float) -> list[Figure]:
        """What is printed. `pace`: tokens of a delta that is on time."""
        # Being late makes larger deltas, and tokens cheaper than they are for a gateway that keeps up.
        on_time = min(pace, self.tokens / self.deltas)
        cpu = self.after.cpu_seconds - self.before.cpu_seconds
        system = self.after.system_seconds - self.before.system_seconds
        return [
            Figure("tokens/s a gateway core", on_time * self.deltas / cpu, "tokens/CPU s", least=GOAL),
            Figure("the same, late merges counted", self.tokens / cpu, "tokens/CPU s"),
            Figure("tokens/s relayed, wall clock", self.tokens / self.seconds, "tokens/s"),
            Figure("gateway's CPU", 100 * cpu / self.seconds, "% of a core"),
            Figure("of it in the kernel", 100 * system / cpu, "%"),
            Figure("streams", streams, ""),
            Figure("CPU a delta, with its share of acks and hints", 1e6 * cpu / self.deltas, "µs"),
            Figure("tokens a delta", self.tokens / self.deltas, ""),
            Figure("tokens an entry", self.fed["tokens"] / self.fed["entries"], ""),
            Figure("feeder kept up: planned over needed time", 100 * self.fed["kept_up"], "%"),
            Figure("reader behind the sampling, p50", 1000 * percentile(self.lags, 0.5), "ms"),
            Figure("reader behind the sampling, p99", 1000 * percentile(self.lags, 0.99), "ms"),
        ]


@click.command()
@click.option("--streams", default=170, show_default=True, help="Answers that stream at the same time.")
@click.option("--rate", default=300.0, show_default=True, help="Tokens a second of each.")
@click.option("--seconds", default=15.0, show_default=True, help="How long.")
@click.option("--batch", is_flag=True, help="Readers say cap `batch`: a delta at most every 40 ms.")
@click.option("--msgpack", is_flag=True, help="Readers speak parley.v1.msgpack.")
@click.option("--profile", type=click.Path(path_type=Path), help="Write a profile of the gateway here.")
@json_option
def relay(
    streams: int,
    rate: float,
    seconds: float,
    batch: bool,
    msgpack: bool,
    profile: Path | None,
    as_json: bool,
) -> None:
    """Tokens/s that one gateway core relays (goal: 50,000).

    A feeder appends real text to the logs as workers do; readers, ten requests a socket, acknowledge as the
    protocol asks and check that no offset is missing. The figure is tokens for each CPU second that the
    gateway's process used, so other load on the machine does not count, with no more tokens to a delta than
    one that is on time has.
    """
    terms = ReaderOptions("parley.v1.msgpack" if msgpack else "parley.v1.json", ["batch"] if batch else [])
    found = uvloop.run(_measure(streams, rate, seconds, terms, profile))
    title = f"relay, {terms.subprotocol}{', cap batch' if batch else ''}"
    pace = max(1.0, rate * (BATCH_SECONDS if batch else DELTA_SECONDS))
    show(title, found.figures(streams, pace), as_json)
    if profile is not None:
        progress(f"profile: {profile}")


async def _measure(
    streams: int, rate: float, seconds: float, terms: ReaderOptions, profile: Path | None
) -> Relayed:
    async with session_testbed() as site:
        gateway = await site.gateway(profile and ("cpu", profile))
        feeder = await Feeder.start(site, streams)
        tally = RelayTally(rate)
        readers = await _readers(site, gateway, streams, terms, tally)
        await feeder.claim(streams)
        progress(f"{streams} streams on {len(readers)} sockets")
        tokens = int((SETTLE_SECONDS + seconds) * rate)
        tally.at = time.monotonic() + LEAD_SECONDS
        writing = asyncio.create_task(feeder.write_at(tally.at, tokens, rate))
        found = await _watch(gateway, tally, writing, readers, tokens)
        await feeder.end()
        async with asyncio.timeout(END_SECONDS_MAX):
            await asyncio.gather(*(reading.done for reader in readers for reading in reader.by_id.values()))
        check(readers)
        for reader in readers:
            reader.close()
        return found


async def _readers(
    site: SessionTestbed, gateway: RunningProcess, streams: int, terms: ReaderOptions, tally: RelayTally
) -> list[BenchReader]:
    readers: list[BenchReader] = []
    for at in range(streams):
        if at % REQUESTS_PER_SOCKET == 0:
            readers.append(await BenchReader.connect(gateway.url, site.key, terms, tally.heard))
        await readers[-1].send()
    return readers


async def _watch(
    gateway: RunningProcess,
    tally: RelayTally,
    writing: "asyncio.Task[dict[str, float]]",
    readers: Sequence[BenchReader],
    tokens_each: int,
) -> Relayed:
    """Measure from the settling to the moment when the feeder is done or the readers have it all."""
    await asyncio.sleep(tally.at + SETTLE_SECONDS - time.monotonic())
    before, tokens, deltas = gateway.usage, tally.tokens, tally.deltas
    tally.lags.clear()
    gateway.profile(begin=True)
    fed = await writing
    expected = tokens_each * sum(len(reader.by_id) for reader in readers)
    deadline = time.monotonic() + END_SECONDS_MAX
    while tally.tokens < expected:
        check(readers)
        if time.monotonic() > deadline:
            raise RuntimeError(f"readers have {tally.tokens} of {expected} tokens")
        await asyncio.sleep(0.01)
    after = gateway.usage
    gateway.profile(begin=False)
    fed["kept_up"] = tokens_each / tally.rate / fed["seconds"]
    seconds = after.at - before.at
    return Relayed(tally.tokens - tokens, tally.deltas - deltas, seconds, before, after, tally.lags, fed)
