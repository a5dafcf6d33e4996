"""From what pools should be, and what runs, to the next step of each. Pure: `now_ms` is an argument.

A round that is made twice, or by two controllers, orders the same again: steps name the state that is wanted,
never a difference. Nothing is drained while the pool would have fewer workers than it should.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.fleet.observed import ChildNow, FleetNow, PoolNow, PoolTarget, SupervisorNow, VersionWorkers
from engine.fleet.version_counts import VersionCounts, VersionFacts, version_counts
from engine.node.reports import WORKERS_MAX

RETRY_MS_MIN, RETRY_MS_MAX = 1_000, 60_000
NOTHING = PoolNow()
STARTING = "its supervisor is starting"
PINNED = re.compile("version [^;]*: [^;]* pins? it[^;]*")
PASSING = (STARTING, "workers are ready", "of its workers drain", "its workers drain")


class StepKind(StrEnum):
    """Kind of a step. KEEP: all is as it should be, or nothing can be done now; the reason says which."""

    START = "start"
    RESIZE = "resize"
    SWITCH = "switch"
    STOP = "stop"
    WAIT = "wait"
    KEEP = "keep"


@dataclass(frozen=True)
class NextStep:
    """The next step of one pool. `supervisor`: the one that is resized; `workers`: as many as it is to run,
    `versions`: of each version, empty for a supervisor that runs one; `paid`: of how many GPU time counts;
    `why`: what is missing, empty where nothing is; `awaits`: requests wait for a worker, which comes."""

    pool: str
    kind: StepKind
    workers: int = 0
    supervisor: str = ""
    why: str = ""
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    paid: int = 0
    awaits: bool = False


@dataclass(frozen=True)
class _Sized:
    """A pool and what there is room for: `here` workers of `desired`, and `surge` beyond; `short`: why it is
    not more."""

    target: PoolTarget
    pool: PoolNow
    own: SupervisorNow | None
    desired: int
    here: int
    short: str
    surge: int = 0

    @property
    def is_rolling(self) -> bool:
        """True where another version than the one in use is about."""
        versions = {} if self.own is None else self.own.versions or {}
        olds = {each for each, of in versions.items() if of.told or of.indexes} - {self.target.version, ""}
        pinned = any(each.requests for each in self.pool.pinned.values())
        return bool(olds or pinned or self.target.next_version)


def next_steps(wanted: Sequence[PoolTarget], now: FleetNow, now_ms: int) -> list[NextStep]:
    """The next step of each pool that should be, by name, and of each of ours that should not be any more."""
    free = now.room - sum(_used(now, pool) for pool in now.pools.values())
    sized = list[_Sized]()
    for target in sorted(wanted, key=lambda each: each.pool):
        each = _sized(target, now.pools.get(target.pool, NOTHING), now, max(0, free))
        free -= max(0, each.here - _told(each.own, each.pool.child))
        sized.append(each)
    steps = list[NextStep]()
    for each in sized:
        surge = _surge(each, max(0, free))
        free -= 1 if surge and _told(each.own, each.pool.child) <= each.here else 0
        steps.append(_step(replace(each, surge=surge), now, now_ms))
    named = {target.pool for target in wanted}
    steps += [_away(name, pool, now) for name, pool in sorted(now.pools.items()) if name not in named]
    return [step for step in steps if step.kind is not StepKind.KEEP or step.pool in named]


def _sized(target: PoolTarget, pool: PoolNow, now: FleetNow, free: int) -> _Sized:
    own, name = _own(now, pool), target.pool
    others = [each for each in pool.supervisors if each is not own]
    elsewhere = sum(each.ordered for each in others)
    total = 0 if target.draining and not pool.requests else target.workers
    want, told = max(0, total - elsewhere), _told(own, pool.child)
    misfit = _misfit(target, now)
    if misfit:
        want = min(want, told)
    here = min(want, told + free, WORKERS_MAX)
    short = misfit or (_no_room(name, total, here - told, elsewhere + told) if here < want else "")
    return _Sized(target, pool, own, total, here, short)


def _surge(sized: _Sized, free: int) -> int:
    """1 where a pool that changes its version may run a worker more than it should, or does so."""
    told = _told(sized.own, sized.pool.child)
    may = sized.is_rolling and sized.here < WORKERS_MAX and not sized.short
    return 1 if may and (told > sized.here or free) else 0


def _step(sized: _Sized, now: FleetNow, now_ms: int) -> NextStep:
    own, pool, name, here = sized.own, sized.pool, sized.target.pool, sized.here
    plan = version_counts(_facts(sized, now_ms))
    if own is not None and (own.workers is None or (own.versions is None and sized.is_rolling)):
        return NextStep(
            name, StepKind.WAIT, why=f"supervisor {own.name} is of an older release: start it again"
        )
    if plan.switch:
        return NextStep(name, StepKind.SWITCH, _told(own, pool.child), own.name if own else "")
    if own is None:
        step = _without_supervisor(name, pool, sum(plan.counts.values()), sized.short, now_ms)
        return replace(step, versions=plan.counts, paid=here) if step.kind is StepKind.START else step
    if own.versions is None:
        return _single(sized, own, NextStep(name, StepKind.KEEP, here, own.name))
    told = {each: of.told for each, of in version_workers(sized.target, own).items() if of.told}
    step = NextStep(name, StepKind.KEEP, sum(plan.counts.values()), own.name, "", plan.counts, here)
    step = replace(step, why=sized.short or plan.why, awaits=plan.awaits)
    if told != plan.counts or own.paid not in (None, here):
        return replace(step, kind=StepKind.RESIZE)
    return _settled(sized, own, step, plan)


def _single(sized: _Sized, own: SupervisorNow, step: NextStep) -> NextStep:
    """The step of a supervisor that runs one version."""
    step = replace(step, why=sized.short)
    if own.workers != sized.here:
        return replace(step, kind=StepKind.RESIZE)
    return _settled(sized, own, step, VersionCounts({}))


def _settled(sized: _Sized, own: SupervisorNow, step: NextStep, plan: VersionCounts) -> NextStep:
    """The step where the supervisor runs what it should."""
    if step.workers == 0 and own.indexes == 0 and _is_child(own, sized.pool.child) and not step.why:
        return NextStep(step.pool, StepKind.STOP)
    return replace(step, why=step.why or plan.why or _unready(own, step.workers))


def _facts(sized: _Sized, now_ms: int) -> VersionFacts:
    target, own, pool = sized.target, sized.own, sized.pool
    ready = dict[str, int]()
    for each in pool.supervisors:
        for version, of in version_workers(target, each).items():
            ready[version] = ready.get(version, 0) + of.ready
    return VersionFacts(
        pool=target.pool,
        model=target.model,
        in_use=target.version,
        next=target.next_version,
        desired=sized.desired,
        here=sized.here,
        surge=sized.surge,
        workers=version_workers(target, own),
        ready=ready,
        pinned=pool.pinned,
        fit=pool.fit,
        accept_gap=target.accept_gap,
        old_until_ms=target.old_until_ms,
        start_seconds=pool.start_seconds,
        is_fresh=own is None,
        now_ms=now_ms,
    )


def version_workers(target: PoolTarget, supervisor: SupervisorNow | None) -> dict[str, VersionWorkers]:
    """A supervisor's workers by version. Those of no named one are of the version in use."""
    if supervisor is None:
        return {}
    if supervisor.versions is None:
        told = VersionWorkers(supervisor.ordered, supervisor.indexes, supervisor.ready)
        return {target.version: told}
    named = dict(supervisor.versions)
    nameless = named.pop("", None)
    if nameless is not None:
        known = named.get(target.version, VersionWorkers())
        named[target.version] = VersionWorkers(
            known.told + nameless.told,
            known.indexes + nameless.indexes,
            known.ready + nameless.ready,
            known.fault or nameless.fault,
        )
    return named


def _without_supervisor(name: str, pool: PoolNow, workers: int, short: str, now_ms: int) -> NextStep:
    child = pool.child
    if child is not None and child.alive:
        return NextStep(name, StepKind.WAIT, child.workers, why=STARTING)
    if workers == 0:
        return NextStep(name, StepKind.WAIT if short else StepKind.KEEP, why=short)
    if pool.lacks:
        return NextStep(name, StepKind.WAIT, why=pool.lacks)
    if child is not None and (left_ms := child.ended_ms + retry_ms(child.failures) - now_ms) > 0:
        seconds = -(-left_ms // 1000)
        why = f"its supervisor ended and is started again in {seconds} s: {child.why}"
        return NextStep(name, StepKind.WAIT, why=why)
    return NextStep(name, StepKind.START, workers, why=short)


def _away(name: str, pool: PoolNow, now: FleetNow) -> NextStep:
    """A pool that should not be any more. Another's supervisor of a pool without a row is left alone."""
    child, own = pool.child, _own(now, pool)
    if child is None or not child.alive:
        return NextStep(name, StepKind.KEEP)
    if own is None or not _is_child(own, child):
        return NextStep(name, StepKind.STOP, why="the pool is deleted")
    if own.workers:
        return NextStep(name, StepKind.RESIZE, 0, own.name, "the pool is deleted")
    if own.indexes:
        return NextStep(name, StepKind.WAIT, why="the pool is deleted: its workers drain")
    return NextStep(name, StepKind.STOP, why="the pool is deleted")


def is_passing(why: str) -> bool:
    """True of a reason that a start, a drain or a change of version is by itself, and of none. Pure."""
    return not why or why.endswith(PASSING) or bool(PINNED.fullmatch(why))


def retry_ms(failures: int) -> int:
    """How long a supervisor that ended by itself is left alone: at first not at all."""
    return 0 if failures <= 1 else min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** min(failures - 2, 16))


def _own(now: FleetNow, pool: PoolNow) -> SupervisorNow | None:
    """The pool's supervisor on this machine: ours, else another's, which obeys as well."""
    here = [each for each in pool.supervisors if each.node == now.node]
    ours = [each for each in here if _is_child(each, pool.child)]
    if pool.child is not None and pool.child.alive:
        return ours[0] if ours else None
    return min(here, key=lambda each: each.name, default=None)


def _is_child(supervisor: SupervisorNow, child: ChildNow | None) -> bool:
    return child is not None and child.alive and child.pid == supervisor.pid


def _told(own: SupervisorNow | None, child: ChildNow | None) -> int:
    """How many workers the supervisor here was told to run."""
    if own is not None:
        return own.ordered
    return child.workers if child is not None and child.alive else 0


def _used(now: FleetNow, pool: PoolNow) -> int:
    """Room that a pool takes here, with workers that start or drain."""
    here = [each for each in pool.supervisors if each.node == now.node]
    used = sum(max(each.workers or 0, each.indexes) for each in here)
    starting = pool.child is not None and pool.child.alive and _own(now, pool) is None
    return used + (pool.child.workers if starting and pool.child else 0)


def _misfit(target: PoolTarget, now: FleetNow) -> str:
    missing = [
        f"{name}={value}" for name, value in sorted(target.labels.items()) if now.labels.get(name) != value
    ]
    return f"node {now.node} does not have the label {missing[0]}" if missing else ""


def _no_room(name: str, total: int, free: int, held: int) -> str:
    room = f"room for {free} more worker{'' if free == 1 else 's'}" if free else "no room for more workers"
    most = held + free
    advice = f"resize it to at most {most}" if most else "resize or delete another pool"
    return f"this machine has {room}; pool {name} wants {total}: {advice}"


def _unready(own: SupervisorNow, workers: int) -> str:
    if own.faults:
        return "; ".join(own.faults)
    if own.indexes > workers:
        return f"{own.indexes - workers} of its workers drain"
    return "" if own.ready >= workers else f"{own.ready} of {workers} workers are ready"
