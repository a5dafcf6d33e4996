"""A place for one worker at a time of its own, without a process."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import RedisError

from core.configuration.settings import Settings
from engine.models.registry import ModelRecord
from engine.node import supervised_worker
from engine.node.reports import WorkerProcessState, WorkerReport
from engine.node.supervised_worker import SupervisedWorker
from engine.queue.types import WorkerView

MODEL = ModelRecord("tiny", "1", "f1", Path("/models/tiny"), 512)


class Process:
    """What a leashed worker is to its place."""

    pid = 4711

    def __init__(self, *codes: int) -> None:
        self.told: list[str] = []
        self.codes = codes
        self.asked = asyncio.Event()

    def terminate(self) -> None:
        """Asked to end."""
        self.told.append("terminate")
        self.asked.set()

    def kill(self) -> None:
        """Ended."""
        self.told.append("kill")

    async def wait(self) -> int:
        """At once where it has a code, else once it is asked to."""
        if not self.codes:
            await self.asked.wait()
        return self.codes[0] if self.codes else 0


class WorkerQueue:
    """Of the pool, what a place asks: who is registered, and to take a worker's work back."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.left: list[tuple[str, str]] = []
        self.away = 0

    async def workers(self) -> list[WorkerView]:
        """All of them."""
        self._answers()
        return [seen(name) for name in self.registered]

    async def deregister(self, worker: str, why: str) -> int:
        """What it held goes to others."""
        self._answers()
        self.left.append((worker, why))
        return 1

    def _answers(self) -> None:
        self.away -= 1
        if self.away >= 0:
            raise RedisError("away")


class WorkerRig:
    """A place at a time of its own, which nothing moves but the test."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.changes, self.counted = 1_000.0, 0, list[tuple[str, dict[str, str]]]()
        self.queue, self.asked = WorkerQueue(), list[str]()
        monkeypatch.setattr(supervised_worker, "time", SimpleNamespace(monotonic=lambda: self.now))
        for name in ("alarms", "worker_exits"):
            adds = SimpleNamespace(add=lambda _, facts, name=name: self.counted.append((name, facts)))
            monkeypatch.setattr(supervised_worker.instruments, name, adds)
        self.slot: Any = SupervisedWorker(settings, self.queue, 2, 4, self._changed, self._model)  # type: ignore[arg-type]
        self.slot.worker = "w"

    def _changed(self) -> None:
        self.changes += 1

    async def _model(self, version: str) -> ModelRecord:
        self.asked.append(version)
        return MODEL

    def runs(self, state: WorkerProcessState = WorkerProcessState.STARTING) -> Process:
        """A worker that was started now."""
        process = self.slot._process = Process()
        self.slot._state = state
        self.slot._started_at = self.slot._alive_at = self.slot._looked_at = self.now
        return process

    def looks(self, after_seconds: float, view: WorkerView | None) -> WorkerReport:
        """What becomes of it then."""
        self.now += after_seconds
        self.slot.look(view)
        return self.slot.report()


def seen(worker: str = "w", alive: bool = True) -> WorkerView:
    """As the pool has it."""
    return WorkerView(worker, "f1", alive, 0, 0, {})
