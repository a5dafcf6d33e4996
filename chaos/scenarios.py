"""What each chaos scenario does to the platform, and how one round of it goes.

A round is one fresh installation under load: faults come at seeded random moments, then everything ends and
is judged. A long run is many rounds, so that an interrupted one goes on where it was.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from chaos.faults import (
    disconnect,
    kill_engine_core,
    kill_redis,
    kill_worker,
    oversize,
    poison,
    reload,
    stop_worker,
    vetoed,
)
from chaos.faults.context import FaultContext
from chaos.installation.cluster import EngineKind, Installation, InstallationPlan, running_cluster
from chaos.installation.span_receiver import receiving_spans
from chaos.judge.collect import gather, witnessed
from chaos.judge.leaks import TELLS_SECRETS, overhearing
from chaos.observations import DoneFault, Observations
from chaos.workload import Crowd, Kind, questions

BUSY_SECONDS_MAX = 240.0  # until a worker has something in hand, or another one has started beside it
NOT_BUSY_SECONDS = 0.02
WARM_SECONDS = 0.5
# Few slots, so that a load this small is spread over the workers and the others have room for what one had.
SPREAD: dict[str, object] = {"worker_slots": 6}
# Requests die with workers so often here that four deaths in a row say nothing about a request.
NO_POISON: dict[str, object] = {"deaths_max": 1000}
# With vLLM: as many answers as one of two workers has slots, so that the other has room for what one had.
VLLM_KIND = Kind(characters=(20, 100), tokens=(60, 160), stops=False)
VLLM_OPEN = 4
VLLM_SETTINGS: dict[str, object] = {"worker_slots": VLLM_OPEN}

Fault = Callable[[FaultContext, random.Random], Awaitable[DoneFault | None]]
Told = Callable[[int], None]


@dataclass(frozen=True)
class Scenario:
    """One kind of trouble. `strike` does it once; `per_second` is how often by default, with the scripted
    engine and with vLLM; `strikes` how many a run has by default. `engines`: those that it applies to.

    `open`: how many answers are under way at a time, asked by `clients`. `apart`: a fault that takes long
    puts the next ones off. `gateways`: how many by default; `kept`: they are started again when they end."""

    name: str
    about: str
    strike: Fault
    per_second: float
    vllm_per_second: float
    strikes: int
    forked: bool = True
    apart: bool = False
    engines: frozenset[EngineKind] = frozenset(EngineKind)
    open: int = 16
    clients: int = 4
    gateways: int = 1
    kept: bool = False
    kind: Kind = field(default_factory=Kind)
    settings: dict[str, object] = field(default_factory=dict[str, object])
    pause_p50_ms: float | None = None
    pause_p99_ms: float | None = None


ALL = (
    Scenario(
        "kill-workers",
        "SIGKILL of workers in the middle of answers.",
        kill_worker.strike,
        per_second=4.0,
        vllm_per_second=0.05,
        strikes=60,
        settings=SPREAD | NO_POISON,
        pause_p50_ms=500,
        pause_p99_ms=1500,
    ),
    Scenario(
        "kill-engine-core",
        "SIGKILL of the EngineCore under a vLLM worker; there is none with the scripted engine.",
        kill_engine_core.strike,
        per_second=0.05,
        vllm_per_second=0.05,
        strikes=4,
        settings=SPREAD | NO_POISON,
        engines=frozenset({EngineKind.VLLM}),
        pause_p50_ms=500,
        pause_p99_ms=1500,
    ),
    Scenario(
        "stop-workers",
        "SIGSTOP of workers in the middle of answers, SIGCONT 0.2 to 6 s later.",
        stop_worker.strike,
        per_second=1.0,
        vllm_per_second=0.2,
        strikes=8,
        settings=SPREAD,
        pause_p99_ms=10_000,
    ),
    Scenario(
        "poison",
        "Questions that kill every worker that runs them, beside innocent ones.",
        poison.strike,
        per_second=0.5,
        vllm_per_second=0.5,
        strikes=4,
        settings=SPREAD | {"test_poison": poison.MARKER},
        engines=frozenset({EngineKind.SCRIPTED}),
    ),
    Scenario(
        "kill-redis",
        "SIGKILL of Redis in the middle of answers; it comes back without its last second.",
        kill_redis.strike,
        per_second=0.25,
        vllm_per_second=0.1,
        strikes=6,
        apart=True,
        settings=SPREAD,
    ),
    Scenario(
        "flush-redis",
        "SIGKILL of Redis in the middle of answers; it comes back without any data.",
        kill_redis.strike_without_data,
        per_second=0.25,
        vllm_per_second=0.1,
        strikes=4,
        apart=True,
        settings=SPREAD,
    ),
    Scenario(
        "disconnects",
        "Clients' connections are cut in the middle of answers.",
        disconnect.strike,
        per_second=2.0,
        vllm_per_second=1.0,
        strikes=60,
        settings=SPREAD,
        clients=16,
    ),
    Scenario(
        "safety",
        "Answers with secrets in them; workers and gateways are killed, connections cut, and readers come.",
        vetoed.strike,
        per_second=4.0,
        vllm_per_second=0.1,
        strikes=60,
        gateways=2,
        kept=True,
        settings=SPREAD | NO_POISON | {TELLS_SECRETS: "1"},
        engines=frozenset({EngineKind.SCRIPTED}),
        clients=16,
    ),
    Scenario(
        "reload-storm",
        "Six further readers at once attach to every open answer, again and again.",
        reload.strike,
        per_second=0.5,
        vllm_per_second=0.2,
        strikes=6,
        settings=SPREAD,
    ),
    Scenario(
        "oom",
        "Bursts of requests that are far too large or as large as fits, beside ordinary ones.",
        oversize.strike,
        per_second=0.7,
        vllm_per_second=0.2,
        strikes=8,
        settings=SPREAD | {"worker_max_model_len": oversize.CONTEXT, "redis_maxmemory_mib": 64},
        engines=frozenset({EngineKind.SCRIPTED}),
    ),
)


async def run_round(
    scenario: Scenario, plan: InstallationPlan, strikes: int, per_second: float, told: Told
) -> Observations:
    """One round with this many faults. `told` hears of each fault."""
    async with (
        _exporting_spans(plan) as (plan, spans),
        running_cluster(plan) as cluster,
        witnessed(cluster) as events,
        overhearing(cluster, spans) as overheard,
    ):
        stop = asyncio.Event()
        vllm = plan.engine is EngineKind.VLLM
        kind = VLLM_KIND if vllm else scenario.kind
        crowd = _crowd(cluster, scenario.clients, VLLM_OPEN if vllm else scenario.open)
        async with asyncio.TaskGroup() as group:
            scene = FaultContext(cluster, crowd, group, warm_only=not plan.forked, overheard=overheard)
            group.create_task(crowd.run(questions(plan.seed, kind), stop))
            began = time.monotonic()
            done = await _strike(scenario, scene, strikes, per_second, told)
            seconds = time.monotonic() - began
            stop.set()
        seen = {"strikes": done, "outages": scene.outages, "counters": crowd.counters}
        more = {"seconds": seconds, "memory_mib": scene.memory_mib}
        return await gather(cluster, crowd.answers + scene.answers, events, overheard, **seen, **more)


@asynccontextmanager
async def _exporting_spans(
    plan: InstallationPlan,
) -> AsyncGenerator[tuple[InstallationPlan, Sequence[bytes]]]:
    """Where secrets are looked for, the same plan with a receiver of trace spans."""
    if TELLS_SECRETS not in plan.settings:
        yield plan, ()
        return
    with receiving_spans() as received:
        yield replace(plan, settings=plan.settings | {"otlp_endpoint": received.url}), received.bodies


def _crowd(cluster: Installation, clients: int, open_: int) -> Crowd:
    tenant, stored = cluster.tenant, TELLS_SECRETS in cluster.plan.settings
    at_once = max(1, open_ // clients)
    return Crowd(cluster.balancer.url, tenant.key, tenant.id, min(clients, open_), at_once, stored)


async def _strike(
    scenario: Scenario, scene: FaultContext, strikes: int, per_second: float, told: Told
) -> list[DoneFault]:
    """Faults at the moments of a Poisson process; one that finds nothing to hit is tried again soon."""
    chosen = random.Random(f"faults {scene.cluster.plan.seed}")
    done: list[DoneFault] = []
    due = time.monotonic() + WARM_SECONDS
    while len(done) < strikes:
        due += chosen.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        done.append(await _hit(scenario, scene, chosen))
        due = max(due, time.monotonic()) if scenario.apart else due
        told(len(done))
    return done


async def _hit(scenario: Scenario, scene: FaultContext, chosen: random.Random) -> DoneFault:
    async with asyncio.timeout(BUSY_SECONDS_MAX):
        while (strike := await scenario.strike(scene, chosen)) is None:  # noqa: ASYNC110  (nothing says when)
            await asyncio.sleep(NOT_BUSY_SECONDS)
    return strike


def round_seed(seed: int, number: int) -> int:
    """A round's own seed: the run's for the first, so that a short run and its replay are the same."""
    return seed if number == 0 else random.Random(f"round {seed} {number}").getrandbits(31)


def with_seed(plan: InstallationPlan, seed: int) -> InstallationPlan:
    """The same installation with another script."""
    return replace(plan, seed=seed)
