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
    @property
    def next_version(self) -> str: ...
    @property
    def old_until_ms(self) -> int: ...
    @property
    def accept_gap(self) -> bool: ...


@dataclass(frozen=True)
class VersionWorkers:
    """A supervisor's workers of one version. `told`: how many it is to run; `indexes`: those that run, start
    or drain; `fault`: what is wrong with the first that has something."""

    told: int = 0
    indexes: int = 0
    ready: int = 0
    fault: str = ""


@dataclass(frozen=True)
class SupervisorNow:
    """A supervisor by its last report. `workers`: how many it was told to run, None where it cannot be told
    while it runs; `indexes`: those that run, start or drain; `faults`: what is wrong with some; `versions`:
    the same by version, None from a release that runs one; `paid`: how many send ready time."""

    name: str
    node: str
    pid: int
    workers: int | None
    indexes: int
    ready: int
    faults: tuple[str, ...] = ()
    versions: Mapping[str, VersionWorkers] | None = None
    paid: int | None = None

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
class PinnedRequests:
    """Waiting, parked and running requests that only workers of an old version can serve, the last until
    `until_ms`. `none_since_ms`: since when there is none, 0: there are some, or nobody knows, of which `why`
    is the reason."""

    requests: int
    until_ms: int = 0
    none_since_ms: int = 0
    why: str = ""


@dataclass(frozen=True)
class NextWorkerFit:
    """Why the node's memory does not hold a worker of the next version: `beside` all that run, or `instead`
    of one of them. Empty: it holds it, or nobody knows."""

    beside: str = ""
    instead: str = ""


@dataclass(frozen=True)
class PoolNow:
    """One pool. `requests`: those that wait or run; `lacks`: what has to be there first, and how; `pinned`:
    by version that is not in use; `start_seconds`: how long its last worker took to get ready, 0: unknown."""

    supervisors: tuple[SupervisorNow, ...] = ()
    child: ChildNow | None = None
    requests: int = 0
    lacks: str = ""
    pinned: Mapping[str, PinnedRequests] = field(default_factory=dict[str, PinnedRequests])
    fit: NextWorkerFit = NextWorkerFit()
    start_seconds: float = 0.0


@dataclass(frozen=True)
class FleetNow:
    """The machine of the hands, with room for `room` workers, and the pools."""

    node: str
    room: int
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pools: Mapping[str, PoolNow] = field(default_factory=dict[str, PoolNow])
