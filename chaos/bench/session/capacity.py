"""`python -m chaos bench sessions`: what a connected session costs a gateway."""

import asyncio
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from chaos.bench.session.reader import BenchReader, ReaderOptions, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation.measure import memory_bytes, resident_bytes, socket_memory_bytes
from chaos.installation.testbed import RunningProcess, SessionTestbed, session_testbed

GOAL_KIB = 40
KIB = 1024
AT_ONCE = 50
WARM_UP = 100
SOURCE_PORTS = 10_000
STEP = 1_000
SPARE_DESCRIPTORS = 300
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class GatewayMemory:
    """The gateway's memory without and with the sessions, and the time between two moments of it."""

    count: int
    pss: int
    rss: int
    kernel: int
    connect_seconds: float
    connect_cpu_seconds: float
    idle_cpu_share: float
    pings: int
    left: int

    def figures(self) -> list[Figure]:
        """What is printed."""
        return [
            Figure("memory a session (PSS)", self.pss / self.count / KIB, "KiB", most=GOAL_KIB),
            Figure("the same as RSS", self.rss / self.count / KIB, "KiB"),
            Figure("kernel's TCP buffers, all processes", self.kernel / self.count / KIB, "KiB"),
            Figure("sessions connected", self.count, ""),
            Figure("connected a second", self.count / self.connect_seconds, "/s"),
            Figure("CPU a connect", 1e6 * self.connect_cpu_seconds / self.count, "µs"),
            Figure("gateway's CPU while all idle", 100 * self.idle_cpu_share, "% of a core"),
            Figure("pings answered meanwhile", self.pings, ""),
            Figure("memory kept after all left", self.left / self.count / KIB, "KiB a session"),
        ]


@click.command()
@click.option("--count", default=10_000, show_default=True, help="Sessions on one gateway process.")
@click.option("--idle", default=30.0, show_default=True, help="Seconds that they stay connected.")
@click.option("--subprotocol", default="parley.v1.json", show_default=True, help="Or parley.v1.msgpack.")
@click.option("--profile", type=click.Path(path_type=Path), help="Write where the memory is; slow.")
@json_option
def sessions(count: int, idle: float, subprotocol: str, profile: Path | None, as_json: bool) -> None:
    """Memory of each of 10,000 sessions (goal: 40 KiB).

    Real sockets say hello with an API key, get their welcome and answer heartbeats. The figure is the growth
    of the gateway's proportional set size, after a first hundred sessions came and went, for each session.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < count + SPARE_DESCRIPTORS:
        raise click.UsageError(
            f"{count} sessions need a hard limit of open files of {count + SPARE_DESCRIPTORS}"
            f"; here it is {most} (ulimit -Hn)"
        )
    held = uvloop.run(_measure(count, idle, ReaderOptions(subprotocol), profile))
    show(f"sessions, {subprotocol}", held.figures(), as_json)


async def _measure(count: int, idle: float, terms: ReaderOptions, profile: Path | None) -> GatewayMemory:
    async with session_testbed() as site:
        gateway = await site.gateway(profile and ("memory", profile))
        pid = gateway.process.pid
        await _leave(await _connect(site, gateway, min(WARM_UP, count), terms))
        pss, rss, kernel = memory_bytes(pid), resident_bytes(pid), socket_memory_bytes()
        gateway.profile(begin=True)
        before, began = gateway.usage, time.monotonic()
        readers = await _connect(site, gateway, count, terms)
        seconds, connected = time.monotonic() - began, gateway.usage
        pings = sum(reader.pings for reader in readers)
        await asyncio.sleep(idle)
        rested = gateway.usage
        check(readers)
        gateway.profile(begin=False)
        full = memory_bytes(pid) - pss, resident_bytes(pid) - rss, socket_memory_bytes() - kernel
        answered = sum(reader.pings for reader in readers) - pings
        await _leave(readers)
        return GatewayMemory(
            count,
            *full,
            connect_seconds=seconds,
            connect_cpu_seconds=connected.cpu_seconds - before.cpu_seconds,
            idle_cpu_share=(rested.cpu_seconds - connected.cpu_seconds) / (rested.at - connected.at),
            pings=answered,
            left=memory_bytes(pid) - pss,
        )


async def _connect(
    site: SessionTestbed, gateway: RunningProcess, count: int, terms: ReaderOptions
) -> list[BenchReader]:
    readers: list[BenchReader] = []
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            source = f"127.0.{1 + number // SOURCE_PORTS}.1"
            own = ReaderOptions(terms.subprotocol, source=source)
            readers.append(await BenchReader.connect(gateway.url, site.key, own))
            if len(readers) % STEP == 0:
                progress(f"{len(readers)} sessions")

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(caller())
    return readers


async def _leave(readers: Sequence[BenchReader]) -> None:
    for reader in readers:
        reader.close()
    await asyncio.sleep(SETTLE_SECONDS)
