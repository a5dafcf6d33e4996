"""The worker indexes of a supervisor: as many of each version as it was last told to run."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from core.observability.telemetry import logger
from engine.node.index_fit import ANY, IndexNow, fit, wanted_versions
from engine.node.supervised_worker import SupervisedWorker

log = logger(__name__)


@dataclass(frozen=True)
class WantedWorkers:
    """How many workers of each version to run, and of how many ready time counts: those beyond, which were
    begun last, send none."""

    versions: Mapping[str, int]
    paid: int

    @classmethod
    def of_any(cls, workers: int) -> "WantedWorkers":
        """So many of whatever version runs, else of the one that the pool has in use."""
        return cls({ANY: workers} if workers else {}, workers)

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.versions.values())


@dataclass(frozen=True)
class RunningIndex:
    """One worker index that runs, or drains since `stop` is set. `order`: of its begin among all."""

    worker: SupervisedWorker
    order: int
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class WorkerIndexes:
    """Runs the wanted workers, with indexes from 0 on. `make` makes one of a version, `ended` is called when
    one has drained."""

    def __init__(
        self,
        wanted: WantedWorkers,
        make: Callable[[int, str], SupervisedWorker],
        ended: Callable[[int], None],
    ) -> None:
        self._wanted = wanted
        self._make = make
        self._ended = ended
        self._running: dict[int, RunningIndex] = {}
        self._begun = 0
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[SupervisedWorker]:
        """The workers by index, those that drain too."""
        return iter([self._running[index].worker for index in sorted(self._running)])

    @property
    def wanted(self) -> int:
        """How many it was told to run."""
        return self._wanted.total

    @property
    def paid(self) -> int:
        """Of how many ready time counts."""
        return self._wanted.paid

    @property
    def versions(self) -> dict[str, int]:
        """How many of each version it was told to run; ANY: not known yet."""
        return wanted_versions(self._now(), self._wanted.versions)

    def resize(self, wanted: WantedWorkers) -> None:
        """Run these from now on. What is too many drains; an index that drains starts again after it."""
        if wanted != self._wanted:
            facts = {"workers": wanted.total, "versions": dict(wanted.versions), "before": self.wanted}
            log.info("supervisor.resized", **facts)
            self._wanted = wanted
            self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then all drain and end."""
        stopping = asyncio.create_task(stop.wait())
        try:
            async with asyncio.TaskGroup() as group:
                while not stop.is_set():
                    self._changed.clear()
                    self._fit(group)
                    changed = asyncio.create_task(self._changed.wait())
                    try:
                        await asyncio.wait([stopping, changed], return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        changed.cancel()
                for each in self._running.values():
                    each.stop.set()
        finally:
            stopping.cancel()

    def _fit(self, group: asyncio.TaskGroup) -> None:
        found = fit(self._now(), self._wanted.versions)
        for index in found.drain:
            self._running[index].stop.set()
        for index, version in found.versions.items():
            self._running[index].worker.version = version
        for index, version in found.start:
            beside = any(each.worker.is_ready and each.worker.version != version for each in self._served())
            running = self._running[index] = RunningIndex(self._make(index, version), self._begun)
            running.worker.is_modest = beside
            self._begun += 1
            group.create_task(self._keep(index, running))
        for at, each in enumerate(self._served()):
            each.worker.workers = max(1, self.paid)
            each.worker.is_surge = at >= self.paid

    def _served(self) -> list[RunningIndex]:
        """Those that do not drain, by their begin."""
        return sorted(
            (each for each in self._running.values() if not each.stop.is_set()), key=lambda each: each.order
        )

    def _now(self) -> list[IndexNow]:
        return [
            IndexNow(index, each.worker.version, each.worker.is_ready, each.stop.is_set())
            for index, each in self._running.items()
        ]

    async def _keep(self, index: int, running: RunningIndex) -> None:
        try:
            await running.worker.keep(running.stop)
        finally:
            del self._running[index]
            self._ended(index)
            self._changed.set()
