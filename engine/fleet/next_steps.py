"""From what pools should be, and what runs, to the next step of each. Pure: `now_ms` is an argument.

A round that is made twice, or by two controllers, orders the same again: steps name the state that is wanted,
never a difference. Nothing is drained while the pool would have fewer workers than it should.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.fleet.observed import ChildNow, FleetNow, PoolNow, PoolTarget, SupervisorNow
from engine.node.reports import WORKERS_MAX

RETRY_MS_MIN, RETRY_MS_MAX = 1_000, 60_000
NOTHING = PoolNow()
STARTING = "its supervisor is starting"
PASSING = (STARTING, "workers are ready", "of its workers drain", "its workers drain")


class StepKind(StrEnum):
    """Kind of a step. KEEP: all is as it should be, or nothing can be done now; the reason says which."""

    START = "start"
    RESIZE = "resize"
    STOP = "stop"
    WAIT = "wait"
    KEEP = "keep"


@dataclass(frozen=True)
class NextStep:
    """The next step of one pool. `supervisor`: the one that is resized; `workers`: as many as it is to run;
    `why`: what is missing, empty where nothing is."""

    pool: str
    kind: StepKind
    workers: int = 0
    supervisor: str = ""
    why: str = ""


def next_steps(wanted: Sequence[PoolTarget], now: FleetNow, now_ms: int) -> list[NextStep]:
    """The next step of each pool that should be, by name, and of each of ours that should not be any more."""
    free = now.room - sum(_used(now, pool) for pool in now.pools.values())
    steps = list[NextStep]()
    for target in sorted(wanted, key=lambda each: each.pool):
        pool = now.pools.get(target.pool, NOTHING)
        step = _step(target, pool, now, max(0, free), now_ms)
        free -= max(0, step.workers - _told(_own(now, pool), pool.child)) if _grows(step) else 0
        steps.append(step)
    named = {target.pool for target in wanted}
    steps += [_away(name, pool, now) for name, pool in sorted(now.pools.items()) if name not in named]
    return [step for step in steps if step.kind is not StepKind.KEEP or step.pool in named]


def _step(target: PoolTarget, pool: PoolNow, now: FleetNow, free: int, now_ms: int) -> NextStep:
    own, name = _own(now, pool), target.pool
    others = [each for each in pool.supervisors if each is not own]
    elsewhere = sum(each.ordered for each in others)
    total = 0 if target.draining and not pool.requests else target.workers
    want, told = max(0, total - elsewhere), _told(own, pool.child)
    misfit = _misfit(target, now)
    if misfit:
        want = min(want, told)
    grows = min(want, told + free, WORKERS_MAX)
    short = misfit or (_no_room(name, total, grows - told, elsewhere + told) if grows < want else "")
    if own is None:
        return _without_supervisor(name, pool, grows, short, now_ms)
    if own.workers is None:
        return NextStep(
            name, StepKind.WAIT, why=f"supervisor {own.name} is of an older release: start it again"
        )
    if own.workers != grows:
        return NextStep(name, StepKind.RESIZE, grows, own.name, short)
    if grows == 0 and own.indexes == 0 and _is_child(own, pool.child) and not short:
        return NextStep(name, StepKind.STOP)
    return NextStep(name, StepKind.KEEP, grows, own.name, short or _unready(own, grows))


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
    """True of a reason that a start or a drain is by itself, and of none. Pure."""
    return not why or why.endswith(PASSING)


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


def _grows(step: NextStep) -> bool:
    return step.kind in (StepKind.START, StepKind.RESIZE)


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
