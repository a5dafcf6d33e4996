"""A machine of pools in memory: steps are obeyed as real supervisors obey them, some of it later."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.fleet.next_steps import NextStep, StepKind
from engine.fleet.observed import ChildNow, FleetNow, PoolNow, SupervisorNow


@dataclass(frozen=True)
class Target:
    """A pool that should be."""

    pool: str
    workers: int
    draining: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = "tiny"
    version: str = "1"
    generation: int = 1
    next_version: str = ""
    old_until_ms: int = 0
    accept_gap: bool = False


def target(pool: str, workers: int, draining: bool = False, **labels: str) -> Target:
    """A pool that should be."""
    return Target(pool, workers, draining, labels)


def reported(
    workers: int | None, indexes: int, ready: int = 0, pid: int = 1, node: str = "n"
) -> SupervisorNow:
    """A supervisor's report."""
    return SupervisorNow(f"s{pid}", node, pid, workers, indexes, ready)


@dataclass
class Machine:
    """Room for some workers, and children: told, indexes that run, whether it has reported."""

    room: int
    children: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    silent: set[str] = field(default_factory=set[str])
    requests: dict[str, int] = field(default_factory=dict[str, int])

    def seen(self) -> FleetNow:
        """What a controller observes now."""
        pools = dict[str, PoolNow]()
        for at, (pool, (told, indexes)) in enumerate(sorted(self.children.items())):
            says = () if pool in self.silent else (reported(told, indexes, indexes, at),)
            pools[pool] = PoolNow(says, ChildNow(at, told, True), self.requests.get(pool, 0))
        for pool, requests in self.requests.items():
            pools.setdefault(pool, PoolNow(requests=requests))
        return FleetNow("n", self.room, {}, pools)

    def obey(self, step: NextStep) -> None:
        """As hands do: a second supervisor of a pool is refused by the first one's lock."""
        if step.kind is StepKind.START and step.pool not in self.children:
            self.children[step.pool] = [step.workers, step.workers]
            self.silent.add(step.pool)
        elif step.kind is StepKind.RESIZE and step.pool in self.children:
            child = self.children[step.pool]
            child[:] = [step.workers, max(child[1], step.workers)]
        elif step.kind is StepKind.STOP:
            self.children.pop(step.pool, None)

    def passes(self) -> None:
        """Time: what drains has drained, who started has reported."""
        self.silent.clear()
        for child in self.children.values():
            child[1] = child[0]

    def used(self) -> int:
        """Workers that there are."""
        return sum(max(child) for child in self.children.values())
