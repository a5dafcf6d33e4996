"""`python -m chaos bench slow-readers`: what readers that never read cost a gateway."""

import asyncio
from dataclasses import dataclass

import click
import uvloop

from chaos.bench.session.feeding import Feeder
from chaos.bench.session.reader import BenchReader, ReaderOptions, check
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation.measure import memory_bytes, socket_memory_bytes
from chaos.installation.testbed import RunningProcess, SessionTestbed, ground

KIB, MIB = 1 << 10, 1 << 20
TARGET_KIB = 1.0
TOKENS_PER_ENTRY = 16
# The default window has 256 entries; a quarter more lets the gateway's own queues see their worst, too.
FULL_ENTRIES = 320
SHARES = (0.25, 0.5, 0.75, 1.0)
AT_ONCE = 32
# Who never reads never answers a ping either; the benchmark is about those that stay.
PATIENT_MS = 3_600_000


@dataclass(frozen=True)
class MemoryPoint:
    """The gateway once so many tokens of each answer are logged."""

    name: str
    tokens: int
    memory: int
    kernel: int


@click.command("slow-readers")
@click.option("--clients", default=1000, show_default=True, help="Readers that never read, one answer each.")
@click.option("--tokens", default=10_000, show_default=True, help="Tokens of each answer.")
@click.option("--settle", default=3.0, show_default=True, help="Seconds to wait before memory is read.")
@json_option
def slow_readers(clients: int, tokens: int, settle: float, as_json: bool) -> None:
    """Memory with 1,000 readers that never read (aim: flat).

    Each has an answer of 10,000 tokens, and stops reading from its socket as soon as that is accepted.
    Memory (PSS) is taken when the windows are full (at 320 log entries), and then along the rest of the
    answers; growth after that should be none.
    """
    points, cpu = uvloop.run(_measure(clients, tokens, settle))
    show("slow-readers", _figures(points, cpu, clients), as_json)


def _figures(points: list[MemoryPoint], cpu: float, clients: int) -> list[Figure]:
    full, last = points[1], points[-1]
    growth = max(point.memory for point in points[1:]) - full.memory
    grown = growth / clients / KIB
    return [
        Figure("growth after the windows filled, a client", grown, "KiB", most=TARGET_KIB),
        *(Figure(f"gateway's memory, {point.name}", point.memory / MIB, "MiB") for point in points),
        Figure("kernel's TCP buffers at the end, all processes", last.kernel / MIB, "MiB"),
        Figure("clients", clients, ""),
        Figure("tokens logged", last.tokens * clients, ""),
        Figure("gateway's CPU for all of it", cpu, "s"),
    ]


async def _measure(clients: int, tokens: int, settle: float) -> tuple[list[MemoryPoint], float]:
    async with ground() as site:
        gateway = await site.gateway(heartbeat_interval_ms=PATIENT_MS)
        feeder = await Feeder.start(site, clients)
        readers = await _deaf(site, gateway, clients)
        await feeder.claim(clients)
        points = [await _point(gateway, "all accepted", 0, settle)]
        began = gateway.usage
        full = min(tokens, FULL_ENTRIES * TOKENS_PER_ENTRY)
        marks = {"windows full": full}
        marks |= {f"{share:.0%} of the tokens": int(share * tokens) for share in SHARES}
        written = 0
        for name, mark in marks.items():
            if mark < full:
                continue
            await feeder.write(mark - written, per_entry=TOKENS_PER_ENTRY)
            written = mark
            points.append(await _point(gateway, f"{name} ({mark:,})", mark, settle))
        check(readers)
        spent = gateway.usage.cpu_seconds - began.cpu_seconds
        for reader in readers:
            reader.close()
        return points, spent


async def _point(gateway: RunningProcess, name: str, tokens: int, settle: float) -> MemoryPoint:
    await asyncio.sleep(settle)
    point = MemoryPoint(name, tokens, memory_bytes(gateway.process.pid), socket_memory_bytes())
    progress(f"{name}: {point.memory / MIB:.1f} MiB")
    return point


async def _deaf(site: SessionTestbed, gateway: RunningProcess, clients: int) -> list[BenchReader]:
    """Readers with an accepted answer each, that have stopped to read."""
    readers: list[BenchReader] = []
    numbers = iter(range(clients))

    async def caller() -> None:
        for _ in numbers:
            reader = await BenchReader.connect(gateway.url, site.key, ReaderOptions(acks=False))
            await reader.send()
            reader.socket.transport.pause_reading()
            readers.append(reader)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(caller())
    return readers
