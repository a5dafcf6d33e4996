"""`python -m chaos bench visible`: how long after an answer its usage is seen.

Real gateway, scripted engine, biller and database. From the client's `end` frame until the request is in what
`usage_in` says, which is what dashboards and `parley usage` ask.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import uvloop

from billing.api import GroupBy, PeriodWindow, usage_in, zone_named
from chaos.bench.wire import BenchSocket
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation import postgres
from chaos.installation.cluster import Installation, InstallationPlan, running_cluster
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs

TARGET_SECONDS = 5.0
TOKENS = 16
WIRES = 8
LOOK_SECONDS = 0.02
SEEN_SECONDS_MAX = 60.0
STEP_MS = 2.0


@dataclass(frozen=True)
class VisibleTimes:
    """What was found, in seconds from an answer's end to its usage being seen."""

    database: str
    answers: int
    per_second: float
    p50: float
    p99: float
    max: float

    def figures(self) -> list[Figure]:
        """What is printed."""
        name = f"usage seen after the end of its answer, {self.database}"
        return [
            Figure(f"{name}, p50", self.p50, "s"),
            Figure(f"{name}, p99", self.p99, "s"),
            Figure(f"{name}, longest", self.max, "s", most=TARGET_SECONDS),
        ]


async def measure(answers: int, per_second: float, database_url: str | None) -> VisibleTimes:
    """Ask at this rate and look at the usage all the time."""
    settings: dict[str, object] = {"database_url": database_url} if database_url else {}
    plan = InstallationPlan(workers=1, seed=1, step_ms=STEP_MS, settings=settings | {"worker_slots": 64})
    async with running_cluster(plan) as cluster:
        ended: list[float] = []
        seen: list[float] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(_watch(cluster, answers, ended, seen))
            await _ask(cluster, answers, per_second, ended, group)
        # The n-th that is seen is at least as old as the n-th that ended, whichever they are.
        waits = sorted(at - end for end, at in zip(sorted(ended), seen, strict=True))
        kind = cluster.database.dialect
        return VisibleTimes(kind, answers, per_second, _rank(waits, 0.5), _rank(waits, 0.99), waits[-1])


async def _ask(
    cluster: Installation, answers: int, per_second: float, ended: list[float], group: asyncio.TaskGroup
) -> None:
    chosen = random.Random(1)
    gateway, key = cluster.gateways[0].url, cluster.tenant.key
    wires = [await BenchSocket.open(gateway, key) for _ in range(WIRES)]
    tasks: list[asyncio.Task[None]] = []
    due = time.monotonic()
    for number in range(answers):
        wire = min(wires, key=lambda each: each.open_requests)
        tasks.append(group.create_task(_one(wire, f"question {number}", ended)))
        due += chosen.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    await asyncio.gather(*tasks)
    for wire in wires:
        await wire.close()


async def _one(wire: BenchSocket, question: str, ended: list[float]) -> None:
    async for _ in wire.ask(question, TOKENS):
        pass
    ended.append(time.monotonic())


async def _watch(cluster: Installation, answers: int, ended: list[float], seen: list[float]) -> None:
    """Note for each request when it is in the sums."""
    window = PeriodWindow(now_ms() - 3_600_000, now_ms() + 3_600_000)
    until = time.monotonic() + SEEN_SECONDS_MAX + answers
    while len(seen) < answers and time.monotonic() < until:
        usage = await usage_in(
            cluster.database, cluster.tenant.id, window, GroupBy.NOTHING, zone_named("UTC")
        )
        count = sum(each.requests for each in usage)
        seen += [time.monotonic()] * (count - len(seen))
        await asyncio.sleep(LOOK_SECONDS)
    if len(seen) < answers:
        raise RuntimeError(f"{len(seen)} of {answers} were ever seen, {len(ended)} have ended")


def _rank(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@contextlib.contextmanager
def a_database(kind: str) -> Generator[str | None]:
    """The URL of an empty database; None: the installation's own SQLite."""
    if kind == "sqlite":
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="parley-pg-") as folder, postgres.running_postgres(Path(folder)):
        asyncio.run(postgres.execute(Path(folder), "CREATE DATABASE visible"))
        yield postgres.url(Path(folder), "visible")


@click.command("visible")
@click.option("--answers", default=200, show_default=True, type=click.IntRange(10))
@click.option("--rate", default=20.0, show_default=True, help="Answers a second.")
@click.option("--database", default="sqlite", show_default=True, type=click.Choice(["sqlite", "postgres"]))
@json_option
def visible(answers: int, rate: float, database: str, as_json: bool) -> None:
    """How long after an answer its usage is seen: from the client's `end` to the sums that are shown.

    The target is less than 5 s for each; exit code 1 where one took longer.
    """
    configure_logs(Settings.model_validate({"log_level": "error"}), "bench")
    progress(f"{answers} answers, {rate:g} a second, {database}")
    with a_database(database) as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(measure(answers, rate, url))
    show("visible", found.figures(), as_json, asdict(found))
    raise SystemExit(0 if all(each.reached is not False for each in found.figures()) else 1)
