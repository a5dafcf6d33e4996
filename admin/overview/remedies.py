"""What would help, best first. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice
from shlex import quote

from admin.overview.answer import (
    OverviewLight,
    OverviewLightState,
    OverviewRemedy,
    RemedyAction,
    RemedyTarget,
)
from admin.overview.facts import OverviewFacts
from admin.overview.pool_states import SeenPool
from admin.overview.verdict import UNREAD_MS_MAX, worst_pool
from admin.overview.words import count, duration, percent, verb
from billing.api import NoisyFinding, is_throttling

REMEDIES_MAX = 3


def remedies_of(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> list[OverviewRemedy]:
    """At most REMEDIES_MAX."""
    return list(islice(_all(facts, lights), REMEDIES_MAX))


def _all(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> Iterator[OverviewRemedy]:
    pool = worst_pool(facts.pools)
    if pool is not None:
        yield from _for_pool(pool, facts)
    yield from _for_books(facts, lights)
    for each in facts.pools:
        if each is not pool and (each.lacks_workers or each.lost):
            yield _worker(each) if each.lacks_workers else _lost(each)
    if facts.unread_ms > UNREAD_MS_MAX:
        text = f"Ended requests wait for one, the oldest for {duration(facts.unread_ms)}."
        yield OverviewRemedy("Start a biller.", text, RemedyAction.NONE, RemedyTarget(), "parley biller")
    for finding in facts.noisy:
        if not is_throttling(finding) and (pool is None or finding.pool != pool.name):
            yield _throttle(finding, facts)


def _for_books(facts: OverviewFacts, lights: Sequence[OverviewLight]) -> Iterator[OverviewRemedy]:
    for light in lights:
        if light.state is OverviewLightState.DIFFERS:
            lead, text = f"Look at {light.check}.", f"{light.title}: {light.difference}; {light.why}."
            yield OverviewRemedy(lead, text, RemedyAction.RECONCILE, RemedyTarget(), light.command)
    if number := facts.sql.quarantined:
        lead, command = "Decide what is billed.", "parley quarantine list"
        text = f"{count(number, 'event')} {verb(number, 'is', 'are')} not billed until somebody decides."
        yield OverviewRemedy(lead, text, RemedyAction.QUARANTINE, RemedyTarget(), command)


def _for_pool(pool: SeenPool, facts: OverviewFacts) -> Iterator[OverviewRemedy]:
    if pool.serving and (move := _best_move(pool, facts)) is not None:
        yield move
    for finding in facts.noisy:
        if finding.pool == pool.name and not is_throttling(finding):
            yield _throttle(finding, facts)
    if pool.lost:
        yield _lost(pool)
    if not pool.starting:
        yield _worker(pool)


def _best_move(pool: SeenPool, facts: OverviewFacts) -> OverviewRemedy | None:
    """Of those whose requests fit elsewhere: first into a pool of their own, then where most fit."""
    runs = {each.fingerprint for each in pool.serving}
    others = [each for each in facts.pools if each is not pool and each.free]
    others = [each for each in others if not runs.isdisjoint(worker.fingerprint for worker in each.serving)]
    found = [
        (other.owner is not None, min(running, other.free), tenant, other)
        for tenant, running in sorted(pool.live.running.items())
        for other in others
        if other.owner in (None, facts.name(tenant))
    ]
    if not found:
        return None
    _, fit, tenant, other = max(found, key=lambda each: each[:2])
    own = {name for name, owner in facts.sql.owners.items() if owner == tenant}
    command = _move_command(facts.name(tenant), pool.name, other.name, own)
    return _move(facts.name(tenant), pool, other, pool.live.running[tenant], fit, command)


def _move_command(tenant: str, pool: str, other: str, own: set[str]) -> str:
    """What moves a tenant; only its requests where the pools it pays for, `own`, would still come first."""
    if own <= {other}:
        return f"parley pools move {pool} --tenant {quote(tenant)} --to {other}"
    return f"parley requests migrate --all --tenant {quote(tenant)} --from-pool {pool} --to {other}"


def _move(
    tenant: str, pool: SeenPool, other: SeenPool, running: int, fit: int, command: str
) -> OverviewRemedy:
    streams = count(running, "stream")
    some = f"{fit} of its {streams}" if fit < running else f"Its {streams}"
    free = count(other.free, "free slot")
    text = f"{some} {verb(fit, 'fits', 'fit')} into {other.name}, which has {free}."
    return OverviewRemedy(
        f"Move {tenant} out of {pool.name}.",
        text,
        RemedyAction.MOVE_TENANT,
        RemedyTarget(pool.name, tenant, other.name),
        command,
    )


def _throttle(finding: NoisyFinding, facts: OverviewFacts) -> OverviewRemedy:
    tenant = facts.name(finding.tenant_id)
    share, fair = percent(finding.share_permille / 1000), percent(finding.fair_permille / 1000)
    return OverviewRemedy(
        f"Throttle {tenant}.",
        f"It takes {share} of {finding.pool}, its fair share is {fair}.",
        RemedyAction.THROTTLE,
        RemedyTarget(finding.pool, tenant),
        f"parley noisy accept {finding.id} --reason …",
    )


def _lost(pool: SeenPool) -> OverviewRemedy:
    first = pool.lost[0]
    where = f" on {first.node}" if first.node else ""
    return OverviewRemedy(
        f"Look at {first.worker}{where}.",
        f"It is lost: {first.why}.",
        RemedyAction.WORKERS,
        RemedyTarget(pool.name),
        f"parley workers list --pool {pool.name}",
    )


def _worker(pool: SeenPool) -> OverviewRemedy:
    if not pool.serving:
        text = "Nobody serves it."
    elif pool.running >= pool.slots:
        text = f"All {count(pool.slots, 'slot')} of {pool.name} are taken."
    else:
        text = f"What waits does not fit into what is free in {pool.name}."
    return OverviewRemedy(
        f"Add a worker to {pool.name}.",
        text,
        RemedyAction.RESIZE,
        RemedyTarget(pool.name),
        f"parley supervisor --pool {pool.name}",
    )
