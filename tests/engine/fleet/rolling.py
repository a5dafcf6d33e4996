"""A pool that changes its version, in memory: its supervisor fits indexes as the real one does."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from engine.fleet.next_steps import NextStep, StepKind, next_steps
from engine.fleet.observed import ChildNow, FleetNow, PinnedRequests, PoolNow, SupervisorNow, VersionWorkers
from engine.fleet.version_counts import LINGER_MS
from engine.node.index_fit import IndexNow, fit, wanted_versions
from tests.engine.fleet.world import Target

ROUND_MS = 2_000
STALE_ROUNDS = 2  # for so many rounds after a switch gateways send to the old version


@dataclass
class RollingPool:
    """One pool on a machine with `room`. `broken`: versions whose workers never get ready."""

    target: Any
    room: int
    running: dict[int, IndexNow] = field(default_factory=dict[int, IndexNow])
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    paid: int = 0
    pins: dict[str, int] = field(default_factory=dict[str, int])
    broken: set[str] = field(default_factory=set[str])
    switches: list[str] = field(default_factory=list[str])
    now_ms: int = 1_000_000
    alive: bool = True
    none_since_ms: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def serving(cls, workers: int, room: int) -> "RollingPool":
        """All its workers are ready, in version 1."""
        running = {at: IndexNow(at, "1", True) for at in range(workers)}
        return cls(Target("p", workers), room, running, {"1": workers} if workers else {}, workers)

    def seen(self) -> FleetNow:
        """What a controller observes."""
        indexes = list(self.running.values())
        counts = wanted_versions(indexes, self.wanted)
        versions = {
            each: VersionWorkers(
                counts.get(each, 0),
                sum(of.version == each for of in indexes),
                self.ready(each),
                "it fails" if each in self.broken else "",
            )
            for each in {*counts, *(of.version for of in indexes)}
        }
        total, ready = sum(self.wanted.values()), sum(of.is_ready and not of.drains for of in indexes)
        own = SupervisorNow("s", "n", 1, total, len(indexes), ready, (), versions, self.paid)
        pinned = {
            each: PinnedRequests(
                self.pins.get(each, 0), self.now_ms + 60_000, self.none_since_ms.get(each, 0)
            )
            for each in self._olds()
        }
        pool = PoolNow((own,) if self.alive else (), ChildNow(1, total, self.alive), 1, pinned=pinned)
        return FleetNow("n", self.room, {}, {"p": pool})

    def round(self) -> NextStep:
        """One round of the controller, obeyed."""
        (step,) = next_steps([self.target], self.seen(), self.now_ms)
        if step.kind is StepKind.SWITCH:
            self.switches.append(self.target.next_version)
            self.target = replace(self.target, version=self.target.next_version, next_version="")
        self.obey(step)
        return step

    def obey(self, step: NextStep) -> None:
        """As hands do."""
        if step.kind is StepKind.START:
            self.alive, self.wanted, self.paid = True, dict(step.versions), step.paid
        elif step.kind is StepKind.RESIZE:
            self.wanted, self.paid = dict(step.versions), step.paid
        self.fits()

    def fits(self) -> None:
        """What a supervisor does whenever something changes."""
        if not self.alive:
            return
        found = fit(list(self.running.values()), self.wanted)
        for index in found.drain:
            self.running[index] = replace(self.running[index], drains=True)
        for index, version in found.start:
            self.running[index] = IndexNow(index, version)

    def passes(self, chance: random.Random, starts: float = 1.0) -> None:
        """Time: what drains is gone, of those that start some are ready, of old requests some end."""
        self.now_ms += ROUND_MS
        self.running = {at: each for at, each in self.running.items() if not each.drains}
        self.fits()
        for at, each in self.running.items():
            if each.version not in self.broken and chance.random() < starts:
                self.running[at] = replace(each, is_ready=True)
        self.none_since_ms = {each: self.none_since_ms.get(each, 0) for each in self._olds()}
        for version in self.none_since_ms:
            if self.ready(version):
                self.pins[version] = max(0, self.pins.get(version, 0) - chance.randint(0, 2))
            since_ms = self.none_since_ms[version] or self.now_ms
            self.none_since_ms[version] = 0 if self.pins.get(version) else since_ms

    def _olds(self) -> set[str]:
        """Versions that are about, but for the one in use."""
        return {*self.pins, *(each.version for each in self.running.values())} - {self.target.version}

    def crash(self, index: int) -> None:
        """A worker dies, and starts again in the same version."""
        if index in self.running:
            self.running[index] = replace(self.running[index], is_ready=False)

    def supervisor_dies(self) -> None:
        """With all its workers."""
        self.alive, self.running = False, {}

    def use(self, version: str) -> None:
        """Want another version, or take that back."""
        current = self.target.version
        self.target = replace(self.target, next_version="" if version == current else version)

    def ready(self, version: str) -> int:
        """Workers of a version that take work."""
        return sum(
            each.is_ready and not each.drains and each.version == version for each in self.running.values()
        )

    def serves(self) -> int:
        """Ready workers that requests go to: of the version in use, of the next, and of pinned ones."""
        names = {self.target.version, self.target.next_version, *(each for each, n in self.pins.items() if n)}
        return sum(self.ready(each) for each in names if each)

    @property
    def settled(self) -> bool:
        """As it should be: all workers of the version in use, ready, and no others."""
        of = [each for each in self.running.values() if each.version == self.target.version and each.is_ready]
        return len(of) == len(self.running) == self.target.workers and not self.target.next_version


assert LINGER_MS > STALE_ROUNDS * ROUND_MS
