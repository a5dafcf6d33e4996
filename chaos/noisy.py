"""`python -m chaos run noisy-neighbour`: what a quiet tenant notices of another one that floods its worker.

The quiet tenant asks one short question after the other in three settings, in one run: alone; on a worker
that the other keeps exactly full, without a backlog; and under the other's flood of many times what fits.
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import click
import uvloop

from chaos.figures.figures import Figure, json_option, progress
from chaos.figures.samples import percentile
from chaos.installation.cluster import Installation, InstallationPlan, InstalledTenant, running_cluster
from chaos.judge import report
from chaos.judge.collect import gather, witnessed
from chaos.judge.oracle import judge
from chaos.observations import Answered, Observations, WorkloadRequest
from chaos.workload import Crowd, Kind, ask, questions
from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs
from parley_client import Client

SLOTS = 16
FULL = SLOTS + 2  # each slot is taken again as soon as it is free
AT_ONCE_PER_CLIENT = 16
SETTLE_SECONDS = 1.5
GOAL = 1.2
QUIET = Kind(characters=(20, 60), tokens=(4, 8), stops=False)
NOISY = Kind(characters=(20, 200), tokens=(20, 60), stops=False)


@dataclass
class NoisyComparison:
    """The quiet tenant's seconds to the first text, by setting; `facts` of everybody's answers."""

    facts: Observations
    waits: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def figures(self) -> list[Figure]:
        """What is printed, milliseconds and ratios of the 95th percentiles."""
        rows: list[Figure] = []
        for setting, seconds in self.waits.items():
            for part in (0.5, 0.95):
                name = f"quiet tenant's first text, {setting}, p{100 * part:.0f}"
                rows.append(Figure(name, 1000 * percentile(seconds, part), "ms"))
        idle, full, flood = (percentile(seconds, 0.95) for seconds in self.waits.values())
        rows.append(Figure("p95 under flood, of full", flood / full, "x", most=GOAL))
        rows.append(Figure("p95 under flood, of idle", flood / idle, "x"))
        return rows


@click.command("noisy-neighbour")
@click.option("--seed", type=int, help="Of the questions; a random one by default, printed.")
@click.option("--flood", default=160, show_default=True, help="Requests that the noisy tenant keeps open.")
@click.option("--asks", default=25, show_default=True, help="Questions of the quiet one in each setting.")
@json_option
def noisy_neighbour(seed: int | None, flood: int, asks: int, as_json: bool) -> None:
    """One tenant floods; what the quiet one's first text takes, beside idle and a full worker.

    The goal (p95 under flood at most 1.2 times that on a worker equally full) is printed; the exit code is
    about lost, doubled and wrongly billed answers only.
    """
    seed = random.SystemRandom().getrandbits(31) if seed is None else seed
    configure_logs(Settings.model_validate({"log_level": "error"}), "chaos")
    progress(f"seed {seed}")
    plan = InstallationPlan(workers=1, seed=seed, settings={"worker_slots": SLOTS})
    found = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_compare(plan, flood, asks))
    tally = report.ReportTally("noisy-neighbour", seed, {"flood": flood, "asks": asks})
    tally.add(found.facts, judge(found.facts))
    rows = [row for row in tally.figures(None, None) if row.most is not None or row.name == "answers"]
    replay = f"python -m chaos run noisy-neighbour --seed {seed} --flood {flood} --asks {asks}"
    report.print_report(tally, replay, found.figures() + rows, as_json)
    sys.exit(0 if tally.clean else 1)


async def _compare(plan: InstallationPlan, flood: int, asks: int) -> NoisyComparison:
    async with running_cluster(plan) as cluster, witnessed(cluster) as events:
        noisy = await cluster.another_tenant("noisy")
        quiet = questions(plan.seed, QUIET)
        answers: list[Answered] = []
        waits: dict[str, list[float]] = {}
        for setting, open_ in (("idle", 0), ("full", FULL), ("flood", flood)):
            crowd = Crowd(cluster.balancer.url, noisy.key, noisy.id, *_clients(open_))
            asked = await _setting(cluster, crowd, list(islice(quiet, asks)), plan.seed)
            waits[setting] = [each.first_text_at - each.sent_at for each in asked if each.first_text_at]
            progress(
                f"{setting}: {len(asked)} questions, p95 {1000 * percentile(waits[setting], 0.95):.0f} ms"
            )
            answers += asked + crowd.answers
        return NoisyComparison(await gather(cluster, answers, events), waits)


async def _setting(
    cluster: Installation, crowd: Crowd, asks: list[WorkloadRequest], seed: int
) -> list[Answered]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        if crowd.clients:
            group.create_task(crowd.run(questions(seed + 1, NOISY), stop))
            await asyncio.sleep(SETTLE_SECONDS)
        try:
            return await _ask_all(cluster, cluster.tenant, iter(asks))
        finally:
            stop.set()


async def _ask_all(
    cluster: Installation, tenant: InstalledTenant, asks: Iterator[WorkloadRequest]
) -> list[Answered]:
    async with Client(cluster.balancer.url, tenant.key) as client:
        return [await ask(client, tenant.id, question, client.new_id()) for question in asks]


def _clients(open_: int) -> tuple[int, int]:
    """How many clients, and requests of each at a time."""
    return -(-open_ // AT_ONCE_PER_CLIENT), min(open_, AT_ONCE_PER_CLIENT)
