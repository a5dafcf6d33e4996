"""`python -m chaos run failpoints`: processes kill themselves at each named point, and the books are proved.

Billers, gateways and workers die between two steps of which the second repairs the first
(chaos/injected/deaths.py) while clients ask. Then every request must be billed exactly once, to the nano:
recomputed here from the usage events as the pool published them, by no code that billed them.
"""

import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import uvloop
from sqlalchemy import text

from billing.api import UsageEvent, set_budget
from chaos.figures.figures import json_option, progress
from chaos.injected.deaths import fired_points
from chaos.installation import postgres
from chaos.installation.cluster import Installation, InstallationPlan, running_cluster
from chaos.judge.bills import cost_of
from chaos.judge.collect import gather, witnessed
from chaos.judge.oracle import judge
from chaos.observations import Observations
from chaos.workload import Crowd, Kind, questions
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs
from core.runtime.failpoints import Failpoint

KIND = Kind(characters=(20, 60), tokens=(24, 96), stops=False)
SECONDS_MAX = 60.0
ANSWERS_MIN = 12
PASSES = {Failpoint.BILLER_AFTER_READ: 2, Failpoint.WORKER_BEFORE_EXTEND: 3, Failpoint.WORKER_AFTER_EXTEND: 6}
PASS_MAX = 3
BUDGET_NANO = 1_000_000 * 10**9
# Small chunks, so that grants are asked for; few places in line, so that some requests are refused there.
SETTINGS: dict[str, object] = {
    "chunk_tokens": 16,
    "worker_slots": 2,
    "queue_requests_per_tenant_max": 4,
    "deaths_max": 1000,
}


@dataclass
class Round:
    """What one installation came to. `wrong`: everything that must not be."""

    database: str
    seed: int
    reached: list[str] = field(default_factory=list[str])
    answers: int = 0
    billed_nano: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list[str])


async def run_round(points: Sequence[Failpoint], seed: int, database_url: str | None) -> Round:
    """One installation, in which a process dies at each of these points."""
    began = time.monotonic()
    chosen = random.Random(f"failpoints {seed}")
    armed = tuple(f"{point}:{PASSES.get(point, 1) + chosen.randrange(PASS_MAX)}" for point in points)
    settings = SETTINGS | ({"database_url": database_url} if database_url else {})
    plan = InstallationPlan(workers=2, seed=seed, step_ms=5.0, settings=settings, failpoints=armed)
    async with running_cluster(plan) as cluster, witnessed(cluster) as events:
        tenant = cluster.tenant
        db, redis = cluster.database, cluster.redis
        await set_budget(db, redis, tenant.id, scope="tenant", period="month", limit_nano=BUDGET_NANO)
        stop = asyncio.Event()
        crowd = Crowd(cluster.balancer.url, tenant.key, tenant.id, clients=4, at_once=3)
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.run(questions(seed, KIND), stop))
            await _until_all_died(cluster, crowd, points)
            stop.set()
        progress(
            f"{len(crowd.answers)} answers have ended, {time.monotonic() - began:.1f} s after the beginning"
        )
        facts = await gather(cluster, crowd.answers, events, counters=crowd.counters)
        reached = fired_points(cluster.site.settings.home)
        found = Round(cluster.database.dialect, seed, sorted(reached), len(crowd.answers))
        found.wrong += [f"nobody died at {point}" for point in points if point not in reached]
        found.wrong += [f"{each.what.value}: {each.request} {each.detail}" for each in judge(facts)]
        found.wrong += await _unproved(cluster, facts)
        found.billed_nano = sum(row.cost_nano for row in facts.posted)
        found.seconds = time.monotonic() - began
    return found


async def _until_all_died(cluster: Installation, crowd: Crowd, points: Sequence[Failpoint]) -> None:
    until = time.monotonic() + SECONDS_MAX
    dead = set[Failpoint]()
    while time.monotonic() < until:
        for point in sorted(fired_points(cluster.site.settings.home) - dead):
            dead.add(point)
            progress(
                f"{point}: a process died, {SECONDS_MAX - until + time.monotonic():.1f} s after the start"
            )
        if fired_points(cluster.site.settings.home) >= set(points) and len(crowd.answers) >= ANSWERS_MIN:
            return
        await asyncio.sleep(0.1)


async def _unproved(cluster: Installation, facts: Observations) -> list[str]:
    """Where the ledger is not what the events say; the judge has compared the books with each other."""
    async with cluster.database.engine.connect() as connection:
        revenue = "SELECT tenant_id, -SUM(amount_nano) FROM ledger_entry WHERE account LIKE 'revenue:%'"
        ledger = {row[0]: int(row[1]) for row in await connection.execute(text(f"{revenue} GROUP BY 1"))}
        counted = "SELECT request_id, COUNT(*) FROM usage_line WHERE number = 0 GROUP BY request_id"
        times = {row[0]: int(row[1]) for row in await connection.execute(text(counted))}
    return list(ledger_faults(facts.events, ledger, times))


def ledger_faults(
    events: Iterable[UsageEvent], ledger: dict[str, int], times: dict[str, int]
) -> Iterator[str]:
    """Where the ledger is not the sum of usage x price to the nano, or a request is in it not exactly once.
    `ledger`: revenue by tenant; `times`: how often a request was booked. Pure."""
    owed: dict[str, int] = {}
    requests: set[str] = set()
    for event in {(event.tenant, event.request): event for event in events}.values():
        requests.add(event.request)
        owed[event.tenant] = owed.get(event.tenant, 0) + cost_of(event)
    for tenant in sorted({*owed, *ledger}):
        if owed.get(tenant, 0) != ledger.get(tenant, 0):
            yield f"the ledger of {tenant} says {ledger.get(tenant, 0)} nano, its usage {owed.get(tenant, 0)}"
    for request in sorted(requests | times.keys()):
        if times.get(request, 0) != 1 or request not in requests:
            yield f"request {request} is in the books {times.get(request, 0)} times"


@contextlib.contextmanager
def databases(kind: str) -> Generator[Iterator[str | None]]:
    """URLs of empty databases of this kind, one after the other; None: the installation's own SQLite."""
    if kind == "sqlite":
        yield iter(lambda: None, 0)
        return
    with tempfile.TemporaryDirectory(prefix="parley-pg-") as folder, postgres.running_postgres(Path(folder)):
        yield _fresh(Path(folder))


def _fresh(folder: Path) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        name = f"round_{number}"
        asyncio.run(postgres.execute(folder, f"CREATE DATABASE {name}"))
        yield postgres.url(folder, name)


@click.command("failpoints")
@click.option("--rounds", default=1, show_default=True, type=click.IntRange(1), help="Installations.")
@click.option("--database", default="sqlite", show_default=True, type=click.Choice(["sqlite", "postgres"]))
@click.option("--point", "named", multiple=True, type=click.Choice([each.value for each in Failpoint]))
@click.option("--seed", type=int, help="Of questions and of the passes at which they die; printed.")
@json_option
def failpoints(rounds: int, database: str, named: tuple[str, ...], seed: int | None, as_json: bool) -> None:
    """Kill processes with SIGKILL at every named point of billing, and prove the books after it.

    Each round is a fresh installation. Every request must be billed exactly once and the ledger be the sum of
    usage times price to the nano; the reconciliation (R1, R2, R4, R5, R7, R8) must find nothing.
    """
    points = [Failpoint(name) for name in named] or list(Failpoint)
    seed = random.SystemRandom().getrandbits(31) if seed is None else seed
    configure_logs(Settings.model_validate({"log_level": "error"}), "chaos")
    progress(f"seed {seed}")
    found: list[Round] = []
    with databases(database) as urls:
        for number in range(rounds):
            url = next(urls)
            runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
            with runner:
                found.append(runner.run(run_round(points, seed + number, url)))
            _show(found[-1], as_json)
    sys.exit(1 if any(each.wrong for each in found) else 0)


def _show(found: Round, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    said = "; ".join(found.wrong) or "every request billed once, the ledger proved to the nano"
    click.echo(
        f"{found.database}, seed {found.seed}: {len(found.reached)} deaths, {found.answers} answers,"
        f" {found.billed_nano} nano billed, {found.seconds:.1f} s: {said}"
    )
