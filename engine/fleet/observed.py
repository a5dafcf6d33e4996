"""Facts of one round of the fleet's controller: desired pools, supervisors that run, the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class PoolTarget(Protocol):
    """What a pool should be, as the controller needs it (billing's DesiredPool)."""

    @property
    def pool(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def workers(self) -> int: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def generation(self) -> int: ...
    @property
    def draining(self) -> bool: ...


@dataclass(frozen=True)
class SupervisorNow:
    """A supervisor by its last report. `workers`: how many it was told to run, None where it cannot be told
    while it runs; `indexes`: those that run, start or drain; `faults`: what is wrong with some."""

    name: str
    node: str
    pid: int
    workers: int | None
    indexes: int
    ready: int
    faults: tuple[str, ...] = ()

    @property
    def ordered(self) -> int:
        """How many workers it runs, or is to run."""
        return self.indexes if self.workers is None else self.workers


@dataclass(frozen=True)
class ChildNow:
    """A supervisor that this controller started for `workers` workers. `failures`: ends in a row that nobody
    ordered, the last at `ended_ms`, of which `why` is the last line."""

    pid: int
    workers: int
    alive: bool
    failures: int = 0
    ended_ms: int = 0
    why: str = ""


@dataclass(frozen=True)
class PoolNow:
    """One pool. `requests`: those that wait or run; `lacks`: what has to be there first, and how."""

    supervisors: tuple[SupervisorNow, ...] = ()
    child: ChildNow | None = None
    requests: int = 0
    lacks: str = ""


@dataclass(frozen=True)
class FleetNow:
    """The machine of the hands, with room for `room` workers, and the pools."""

    node: str
    room: int
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pools: Mapping[str, PoolNow] = field(default_factory=dict[str, PoolNow])
