"""Platforms as the overview reads them, made of a few words."""

from collections.abc import Mapping, Sequence
from typing import Any

from admin.overview.facts import OverviewFacts, RedisFacts, SqlFacts
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.last_run import LastRun, checks_of
from billing.reconciliation.tenant_keys import EndedStreams
from billing.tables.noisy import NoisyFinding
from engine.operations.live_pools import LiveClass, LivePool, LiveWorker
from engine.operations.worker_rows import WorkerRow
from engine.request import PriorityClass

NOW_MS = 1_800_000_000_000
NAMES = {"t1": "acme", "t2": "globex", "t3": "initech"}
NOTHING = LiveClass()


def a_worker(name: str = "w1", state: str = "ready", running: int = 0, **facts: Any) -> LiveWorker:
    """A worker with 16 slots. `slots`, `fingerprint`, `predicted`, and facts of its row."""
    slots, fingerprint = facts.pop("slots", 16), facts.pop("fingerprint", "fp")
    predicted = facts.pop("predicted", 30)
    row: dict[str, Any] = {
        **{
            "node": "n1",
            "model": "qwen",
            "running": running,
            "waiting": 0,
            "kv_usage": 0.5,
            "step_age_ms": 31,
        },
        **{"memory_mib": None, "lease_ms": 2_000, "pid": 7, "starts": 1, "why": "", **facts},
    }
    return LiveWorker(
        WorkerRow(worker=name, state=state, claims=running, **row), slots, fingerprint, "4", predicted
    )


def a_pool(
    name: str = "eu-1",
    workers: Sequence[LiveWorker] = (),
    interactive: LiveClass = NOTHING,
    standard: LiveClass = NOTHING,
    bulk: LiveClass = NOTHING,
    **facts: Any,
) -> LivePool:
    """A pool with what waits in it."""
    classes = dict(zip(PriorityClass, (interactive, standard, bulk), strict=True))
    return LivePool(name, list(workers), classes, **facts)


def waiting(number: int, oldest_ms: int = 9_800, ready: int = 1) -> LiveClass:
    """So many requests that wait."""
    return LiveClass(number, oldest_ms, ready)


def compared(*differing: Comparison, age_ms: int = 40_000) -> LastRun:
    """All checks: those given, and one of each that agrees."""
    equal = [Comparison(check, "", "all", "nano", 5, 5) for check in Check]
    return LastRun(NOW_MS - age_ms, checks_of([*equal, *differing]))


def a_platform(
    *pools: LivePool,
    result: LastRun | None = None,
    unread: EndedStreams | None = None,
    sees_pools: bool = True,
    **facts: Any,
) -> OverviewFacts:
    """A platform whose books agree, where nothing else is said. `facts`: of SQL."""
    redis = RedisFacts(NOW_MS, pools if sees_pools else (), unread or EndedStreams(()))
    return OverviewFacts(NOW_MS, redis, SqlFacts(compared=result or compared(), **facts), NAMES, sees_pools)


def noisy(tenant: str = "t3", pool: str = "eu-1", **facts: Any) -> NoisyFinding:
    """A tenant that takes 43 % of a pool."""
    shares: Mapping[str, int] = {"share_permille": 430, "fair_permille": 140, "used_tokens": 1}
    times = {"opened_ms": NOW_MS - 60_000, "updated_ms": NOW_MS, "others_wait_ms": 1, "baseline_wait_ms": 1}
    return NoisyFinding(tenant_id=tenant, id="f1", pool=pool, proposal={}, **shares, **times, **facts)
