"""Is all well? The first thing that is not, in the order of how much it hurts, as a sentence. Pure.

Platform unreadable, workers lost while requests wait, pools full, books that differ, events that wait for a
decision, what will hurt later; else all is well.
"""

from collections.abc import Sequence

from admin.overview.answer import (
    OverviewLight,
    OverviewLightState,
    OverviewVerdict,
    VerdictState,
    WorkerCellState,
)
from admin.overview.check_lights import STALE_MS, lights_sentence
from admin.overview.facts import OverviewFacts
from admin.overview.pool_states import SeenPool
from admin.overview.words import count, duration, listed, percent, verb
from billing.pages import TenantNeed
from engine.api import PriorityClass

UNREAD_MS_MAX = 60_000  # the biller posts within a second
LEAST_MS = 100  # told of a wait
IDLE = (
    "No request ended in the last hour: live numbers begin with the next one, as `parley chat` sends it; "
    "what was used before is in Tenants and their statements."
)
NEEDS = {
    TenantNeed.OVER_BUDGET: "over budget",
    TenantNeed.EMPTY_WALLET: "wallet empty",
    TenantNeed.OWES: "owes",
    TenantNeed.NOISY: "over fair share",
}
BAD, WARN, WELL, UNKNOWN = VerdictState.BAD, VerdictState.WARN, VerdictState.WELL, VerdictState.UNKNOWN


def verdict_of(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> OverviewVerdict:
    """The sentence, and what else matters."""
    if facts.redis is None:
        text = "Redis does not answer: what runs and waits is not known."
        return OverviewVerdict(UNKNOWN, text, "Clients wait, and what runs goes on once it answers again.")
    pool = worst_pool(facts.pools)
    if pool is not None:
        return OverviewVerdict(BAD, _pool_text(pool), _pool_detail(pool, facts.pools))
    for state, text in (*_of_books(facts, lights), *_of_alerts(facts, lights)):
        return OverviewVerdict(state, text, summary(facts, lights))
    return OverviewVerdict(WELL, _well(facts), summary(facts, lights))


def _well(facts: OverviewFacts) -> str:
    """That all is well, or all but some tenants of their own doing."""
    if not (needs := facts.sql.needs):
        return "All well."
    named = sorted((facts.name(tenant), why) for tenant, why in needs.items())
    told = [f"{name} ({', '.join(NEEDS[each] for each in why)})" for name, why in named]
    who = f"{count(len(told), 'tenant')} {verb(len(told), 'needs', 'need')} you"
    return f"The platform is well; {who}: {listed(told)}."


def worst_pool(pools: Sequence[SeenPool]) -> SeenPool | None:
    """The pool in which requests wait that should not: first where nobody can take them, then where workers
    were lost, then where they wait longest."""
    hurt = [each for each in pools if each.is_full or (each.waiting and not each.serving)]
    return max(hurt, key=lambda each: (not each.serving, bool(each.lost), each.urgent_ms), default=None)


def _pool_text(pool: SeenPool) -> str:
    if not pool.serving:
        oldest = max(each.oldest_ms for each in pool.live.classes.values())
        waits = f"{count(pool.waiting, 'request')} {verb(pool.waiting, 'waits', 'wait')}"
        return f"Pool {pool.name} has no worker: {waits}, the oldest for {duration(oldest)}."
    standard = pool.live.classes.get(PriorityClass.STANDARD)
    kind = "request" if standard and standard.waiting else "interactive request"
    waits = f"{count(pool.urgent, kind)} {verb(pool.urgent, 'waits', 'wait')}"
    if pool.next_ms is None:
        return f"Pool {pool.name} is full: {waits}, the oldest for {duration(pool.urgent_ms)}."
    return f"Pool {pool.name} is full: {waits}, next free in about {duration(pool.next_ms)}."


def _pool_detail(pool: SeenPool, pools: Sequence[SeenPool]) -> str:
    parts: list[str] = []
    if pool.lost:
        first, more = pool.lost[0], len(pool.lost) - 1
        where = f" on {first.node}" if first.node else ""
        parts.append(f"{first.worker}{where} was lost: {first.why}.")
        parts += [f"So {verb(more, 'was', 'were')} {count(more, 'other worker')}."] if more else []
    if pool.starting:
        names = [each.worker for each in pool.starting]
        parts.append(f"{listed(names)} {verb(len(names), 'is', 'are')} starting.")
    if pool.serving and pool.running >= pool.slots:
        workers = count(len(pool.serving), "worker")
        parts.append(f"All {count(pool.slots, 'slot')} of {workers} are taken.")
    elif pool.serving:
        parts.append(f"{pool.running} of {count(pool.slots, 'slot')} are taken; what waits does not fit.")
    others = [each for each in pools if each is not pool]
    too = [each.name for each in others if each.is_full or each.lacks_workers]
    well = [each.name for each in others if each.serving and each.name not in too and not each.lost]
    parts += [f"{listed(too)} {verb(len(too), 'has', 'have')} no room either."] if too else []
    parts += [f"{listed(well)} {verb(len(well), 'is', 'are')} well."] if well else []
    return " ".join(parts)


def _of_books(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> list[tuple[VerdictState, str]]:
    said: list[tuple[VerdictState, str]] = []
    differing = [each for each in lights if each.state is OverviewLightState.DIFFERS]
    if len(differing) == 1:
        (only,) = differing
        said.append((BAD, f"The books differ: {only.check} ({only.title}) by {only.difference}: {only.why}."))
    elif differing:
        checks = ", ".join(each.check for each in differing)
        said.append((BAD, f"The books differ: {len(differing)} checks, {checks}."))
    if facts.sql.quarantined:
        number = facts.sql.quarantined
        held = f"{count(number, 'usage event')} {verb(number, 'waits', 'wait')}"
        said.append((WARN, f"{held} for a decision, unbilled."))
    return said


def _of_alerts(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> list[tuple[VerdictState, str]]:
    """What hurts nobody yet, the worst first."""
    said = [_lack(each) for each in facts.pools if each.lacks_workers]
    if facts.sees_pools and not any(each.serving for each in facts.pools):
        said.append("No worker runs.")
    said += [_lost(each) for each in facts.pools if each.lost]
    if facts.unread_ms > UNREAD_MS_MAX:
        ended = count(facts.unread, "ended request")
        said.append(f"Nothing was billed for {duration(facts.unread_ms)}: {ended} wait for the biller.")
    ages = [each.age_seconds for each in lights if each.age_seconds is not None]
    if ages and 1000 * max(ages) > STALE_MS:
        said.append(f"The books were not compared for {duration(1000 * max(ages))}.")
    said += [
        f"{facts.name(each.tenant_id)} takes {percent(each.share_permille / 1000)} of {each.pool}, its fair "
        f"share is {percent(each.fair_permille / 1000)}."
        for each in facts.noisy
    ]
    said += [words for each in facts.pools if (words := _slow(each))]
    return [(WARN, words) for words in said]


def _lack(pool: SeenPool) -> str:
    if pool.starting:
        names = [each.worker for each in pool.starting]
        return (
            f"Pool {pool.name} has no worker yet: {listed(names)} {verb(len(names), 'is', 'are')} starting."
        )
    return f"Pool {pool.name} has no worker: requests for {listed(list(pool.models))} would wait."


def _lost(pool: SeenPool) -> str:
    first = pool.lost[0]
    if len(pool.lost) > 1:
        return f"{len(pool.lost)} of {count(len(pool.cells), 'worker')} of {pool.name} are lost."
    where = f" on {first.node}" if first.node else ""
    return f"{first.worker}{where} of {pool.name} is lost: {first.why}."


def _slow(pool: SeenPool) -> str:
    slow = [each for each in pool.cells if each.state is WorkerCellState.SLOW]
    if not slow:
        return ""
    if len(slow) > 1:
        return f"{len(slow)} of {count(len(pool.cells), 'worker')} of {pool.name} are slow."
    return f"{slow[0].worker} of {pool.name} is slow: {slow[0].why}."


def summary(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> str:
    """What runs, what waits and what the books say, in three sentences."""
    work = _work(facts.pools) if facts.sees_pools else []
    idle = [IDLE] if facts.sees_pools and facts.is_idle else []
    return " ".join([*work, *idle, lights_sentence(lights)])


def _work(pools: Sequence[SeenPool]) -> list[str]:
    serving = [each for each in pools if each.serving]
    running, workers = sum(each.running for each in pools), sum(len(each.serving) for each in serving)
    runs = f"{count(running, 'request')} {verb(running, 'runs', 'run')} on {count(workers, 'worker')}"
    waiting = [found for each in pools if (found := each.live.classes.get(PriorityClass.INTERACTIVE))]
    oldest = max((each.oldest_ms for each in waiting if each.waiting), default=None)
    longer = "" if oldest is None else f" longer than {duration(max(oldest, LEAST_MS))}"
    return [f"{runs} in {count(len(serving), 'pool')}.", f"No interactive request waits{longer}."]
