"""`python -m chaos bench drain`: what readers notice when their gateway is stopped as planned."""

import asyncio
import gc
import statistics
import time
from dataclasses import dataclass, field

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from chaos.installation.balancer import Balancer, running_balancer
from chaos.installation.testbed import RunningProcess, SessionTestbed, session_testbed
from parley_client import Answer, Client, Counters, Ended, Text

GOAL_MS = 100
START_SECONDS = 1.0
BEFORE_SECONDS = 4.0
AFTER_SECONDS = 3.0
END_SECONDS_MAX = 60.0


@dataclass
class DrainReader:
    """One client of ours with one answer: when its text came, and how the answer ended."""

    client: Client
    answer: Answer
    arrivals: list[float] = field(default_factory=list[float])
    ended: Ended | None = None

    async def read(self) -> None:
        """Read to the end."""
        async for event in self.answer.events():
            if isinstance(event, Text):
                self.arrivals.append(time.monotonic())
            elif isinstance(event, Ended):
                self.ended = event

    def pause(self, begin: float, finish: float) -> float:
        """The longest gap between two arrivals in this time, less this answer's median gap, in seconds."""
        pairs = list(zip(self.arrivals, self.arrivals[1:], strict=False))
        ordinary = statistics.median(later - earlier for earlier, later in pairs)
        longest = max(later - earlier for earlier, later in pairs if later >= begin and earlier <= finish)
        return max(0.0, longest - ordinary)


@dataclass(frozen=True)
class Drained:
    """One planned drain. `control`: the same as `pauses` in as long a time before it."""

    pauses: list[float]
    control: list[float]
    drain_seconds: float
    ordinary: float
    whole: int
    exit_code: int
    counters: list[Counters]

    def figures(self) -> list[Figure]:
        """What is printed."""
        pauses, control = ([1000 * pause for pause in each] for each in (self.pauses, self.control))
        return [
            Figure("pause p99", percentile(pauses, 0.99), "ms", most=GOAL_MS),
            Figure("pause p50", percentile(pauses, 0.5), "ms"),
            Figure("longest pause", max(pauses), "ms"),
            Figure("the same without a drain, p99", percentile(control, 0.99), "ms"),
            Figure("ordinary gap between two deltas", 1000 * self.ordinary, "ms"),
            Figure("answers lost or not whole", len(pauses) - self.whole, "", most=0),
            Figure("answers read by the drained gateway's clients", len(pauses), ""),
            Figure("handovers without a lost connection", sum(each.handovers for each in self.counters), ""),
            Figure("reconnects after a lost connection", sum(each.reconnects for each in self.counters), ""),
            Figure("SIGTERM to the gateway's exit", self.drain_seconds, "s"),
            Figure("its exit code", self.exit_code, "", most=0),
        ]


@click.command()
@click.option("--streams", default=100, show_default=True, help="Live answers, a client each.")
@click.option("--rate", default=50.0, show_default=True, help="Tokens a second of each.")
@click.option("--drain-seconds", default=10.0, show_default=True, help="The drained gateway's time for it.")
@json_option
def drain(streams: int, rate: float, drain_seconds: float, as_json: bool) -> None:
    """Pause of readers in a planned drain (goal: p99 < 100 ms).

    Two gateways behind a TCP balancer; Parley's own Python clients read through it. One gateway gets SIGTERM
    while all answers stream from it. A reader's pause is its longest gap between two deltas from the SIGTERM
    until after the gateway's exit, less its ordinary gap. Every answer's text is checked by its hash.
    """
    show("drain", uvloop.run(_measure(streams, rate, drain_seconds)).figures(), as_json)


async def _measure(streams: int, rate: float, drain_seconds: float) -> Drained:
    async with session_testbed() as site:
        old = await site.gateway(drain_seconds_max=drain_seconds)
        feeder = await Feeder.start(site, streams)
        async with running_balancer([old.url]) as balancer:
            await _until_ready(balancer, old)
            readers = await _readers(site, balancer, streams)
            tasks = [asyncio.create_task(reader.read()) for reader in readers]
            await feeder.claim(streams)
            new = await site.gateway()
            balancer.add(new.url)
            await _until_ready(balancer, new)
            progress(f"{streams} answers on one of two gateways")
            gc.collect()
            gc.freeze()  # a full collection of everything imported would stop all hundred readers at once
            return await _drain(old, feeder, readers, tasks, rate, drain_seconds)


async def _drain(
    old: RunningProcess,
    feeder: Feeder,
    readers: list[DrainReader],
    tasks: "list[asyncio.Task[None]]",
    rate: float,
    drain_seconds: float,
) -> Drained:
    began = time.monotonic() + START_SECONDS
    seconds = BEFORE_SECONDS + drain_seconds + AFTER_SECONDS
    writing = asyncio.create_task(feeder.write_at(began, int(seconds * rate), rate))
    await asyncio.sleep(began + BEFORE_SECONDS - time.monotonic())
    stopped = time.monotonic()
    old.process.terminate()
    code = await old.process.wait()
    exited = time.monotonic()
    progress(f"drained in {exited - stopped:.1f} s")
    await writing
    await feeder.end()
    async with asyncio.timeout(END_SECONDS_MAX):
        await asyncio.gather(*tasks)
    gaps = [b - a for reader in readers for a, b in zip(reader.arrivals, reader.arrivals[1:], strict=False)]
    found = Drained(
        pauses=[reader.pause(stopped, exited + 1) for reader in readers],
        control=[reader.pause(began + 1, stopped) for reader in readers],
        drain_seconds=exited - stopped,
        ordinary=statistics.median(gaps),
        whole=sum(reader.ended is not None and reader.ended.verified for reader in readers),
        exit_code=code,
        counters=[reader.client.counters for reader in readers],
    )
    await asyncio.gather(*(reader.client.close() for reader in readers))
    return found


async def _readers(site: SessionTestbed, balancer: Balancer, streams: int) -> list[DrainReader]:
    readers: list[DrainReader] = []
    for _ in range(streams):
        client = await Client(balancer.url, site.key).__aenter__()
        readers.append(DrainReader(client, await client.send("Tell me a story.")))
    return readers


async def _until_ready(balancer: Balancer, gateway: RunningProcess) -> None:
    async with asyncio.timeout(END_SECONDS_MAX):
        while gateway.url not in balancer.ready:  # noqa: ASYNC110  (the balancer asks at its own pace)
            await asyncio.sleep(0.05)
