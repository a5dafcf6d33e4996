"""The worker indexes of a supervisor: as many as it was last told to run, the highest drained first."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.observability.telemetry import logger
from engine.node.supervised_worker import SupervisedWorker

log = logger(__name__)


@dataclass(frozen=True)
class RunningIndex:
    """One worker index that runs, or drains since `stop` is set."""

    worker: SupervisedWorker
    stop: asyncio.Event


class WorkerIndexes:
    """Runs `wanted` worker indexes, from 0 on. `make` makes one, `ended` is called when one has drained."""

    def __init__(
        self, wanted: int, make: Callable[[int], SupervisedWorker], ended: Callable[[int], None]
    ) -> None:
        self.wanted = wanted
        self._make = make
        self._ended = ended
        self._running: dict[int, RunningIndex] = {}
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[SupervisedWorker]:
        """The workers by index, those that drain too."""
        return iter([self._running[index].worker for index in sorted(self._running)])

    def resize(self, wanted: int) -> None:
        """Run this many from now on. What is too many drains; an index that drains starts again after it."""
        if wanted != self.wanted:
            log.info("supervisor.resized", workers=wanted, before=self.wanted)
            self.wanted = wanted
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
        for index in range(self.wanted):
            if index not in self._running:
                running = self._running[index] = RunningIndex(self._make(index), asyncio.Event())
                group.create_task(self._keep(index, running))
        for index, each in self._running.items():
            each.worker.workers = self.wanted
            if index >= self.wanted:
                each.stop.set()

    async def _keep(self, index: int, running: RunningIndex) -> None:
        try:
            await running.worker.keep(running.stop)
        finally:
            del self._running[index]
            self._ended(index)
            self._changed.set()
