"""Worker indexes of a supervisor change while it runs: more start, the highest drain, none is killed."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from engine.gpus import DeviceHealth
from engine.node import worker_gpus
from engine.node.reports import NodeReport, PoolNodes
from engine.node.supervised_worker import SupervisedWorker
from engine.node.worker_gpus import WorkerGpus
from engine.node.worker_indexes import WantedWorkers, WorkerIndexes
from tests.engine.node.supervised import crew as crew
from tests.engine.node.supervised import supervised
from tests.engine.workers import PoolWorkers
from tests.support.patience import START_SECONDS, soon, wait_until


async def test_a_running_supervisor_takes_more_and_fewer_workers(crew: PoolWorkers):
    """By orders in Redis: a second worker starts beside the first, and goes again with its request moved as
    drained; none at all is a size too, and what waits then goes on with the next."""
    nodes = PoolNodes(crew.queue)
    async with supervised(crew, crew.settings, workers=1) as (first,):

        async def has(workers: int) -> list[NodeReport]:
            (report,) = await nodes.reports()
            alive = [view for view in await crew.queue.workers() if view.alive]
            return [report] if len(alive) == len(report.slots) == workers == report.workers else []

        supervisor = (await wait_until(lambda: has(1)))[0].supervisor
        await nodes.resize(supervisor, 2)
        (report,) = await wait_until(lambda: has(2), START_SECONDS)
        assert [slot.index for slot in report.slots] == [0, 1]
        assert report.slots[0].worker == first.worker
        await nodes.resize(supervisor, 0)
        id = await crew.send(max_tokens=40)
        await wait_until(lambda: has(0))
        await nodes.resize(supervisor, 1)
        await crew.ended(id, START_SECONDS)
        assert set(await crew.kinds(id)) <= {"queued", "running", "moved:drain", "end"}
        await wait_until(lambda: has(1))


class FakeWorker:
    """A worker that drains when it is let."""

    def __init__(self, index: int, version: str) -> None:
        self.index, self.workers, self.drained = index, 0, asyncio.Event()
        self.version, self.draining, self.is_ready = version, False, False
        self.is_surge = self.is_modest = False

    async def keep(self, stop: asyncio.Event) -> None:
        """Run until `stop`, then drain."""
        await stop.wait()
        self.draining = True
        await self.drained.wait()


class Indexes:
    """Worker indexes of fakes, and those that were made and have ended."""

    def __init__(self) -> None:
        self.made, self.ended = list[FakeWorker](), list[int]()
        self.of = WorkerIndexes(WantedWorkers.of_any(2), self._make, self.ended.append)
        self.stop = asyncio.Event()

    def _make(self, index: int, version: str) -> SupervisedWorker:
        fake: Any = FakeWorker(index, version)
        self.made.append(fake)
        return fake

    def now(self) -> list[tuple[int, bool]]:
        """Index and whether it drains, of each that is there."""
        fakes: Any = list(self.of)
        return [(fake.index, fake.draining) for fake in fakes]


@pytest.fixture
async def indexes() -> AsyncGenerator[Indexes]:
    """Two that run; all are let go at the end."""
    made = Indexes()
    task = asyncio.create_task(made.of.run(made.stop))
    await wait_until(lambda: len(made.now()) == 2)
    yield made
    made.stop.set()
    for fake in made.made:
        fake.drained.set()
    await soon(task)
    assert made.now() == []


async def test_an_index_that_drains_starts_again_only_after_it(indexes: Indexes):
    """Asked for again meanwhile, it has two workers at no time; each knows how many share the cores."""
    indexes.of.resize(WantedWorkers.of_any(1))
    await wait_until(lambda: indexes.now() == [(0, False), (1, True)])
    indexes.of.resize(WantedWorkers.of_any(3))
    await wait_until(lambda: indexes.now() == [(0, False), (1, True), (2, False)])
    assert [fake.index for fake in indexes.made] == [0, 1, 2]
    indexes.made[1].drained.set()
    await wait_until(lambda: indexes.now() == [(0, False), (1, False), (2, False)])
    assert (indexes.ended, [fake.workers for fake in indexes.of]) == ([1], [3, 3, 3])


async def test_all_that_run_drain_at_the_end(indexes: Indexes):
    """Those that drain already are waited for like the others."""
    indexes.of.resize(WantedWorkers.of_any(1))
    await wait_until(lambda: indexes.now() == [(0, False), (1, True)])
    indexes.stop.set()
    await wait_until(lambda: indexes.now() == [(0, True), (1, True)])


async def test_versions_run_side_by_side(indexes: Indexes):
    """One beyond those that are paid is a surge until it replaces one; what had no version before has the one
    that it was made for, and stays so."""
    for fake in indexes.made:
        fake.is_ready = True
    indexes.of.resize(WantedWorkers({"1": 2, "2": 1}, 2))
    await wait_until(lambda: len(indexes.now()) == 3)
    facts = [(fake.index, fake.version, fake.is_surge, fake.is_modest) for fake in indexes.made]
    assert facts == [(0, "1", False, False), (1, "1", False, False), (2, "2", True, True)]
    assert indexes.of.versions == {"1": 2, "2": 1}
    indexes.of.resize(WantedWorkers({"2": 2, "1": 1}, 2))
    await wait_until(lambda: indexes.now() == [(0, False), (1, True), (2, False)])
    await wait_until(lambda: not indexes.made[2].is_surge)
    indexes.made[1].drained.set()
    await wait_until(lambda: len(indexes.made) == 4)
    assert (indexes.made[3].index, indexes.made[3].version, indexes.made[3].is_surge) == (1, "2", True)
    assert [fake.workers for fake in indexes.of] == [2, 2, 2]


def devices(count: int) -> list[DeviceHealth]:
    """GPUs of a node."""
    return [DeviceHealth(at, f"GPU-{at}", 40, 90, 0, False, 0, 1, "NVIDIA H200") for at in range(count)]


def test_an_index_has_a_gpu_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What one supervisor gives back another takes; more workers than GPUs share them in turn."""
    monkeypatch.setattr(worker_gpus.tempfile, "gettempdir", lambda: str(tmp_path))
    seen = devices(3)
    one, other = WorkerGpus(None), WorkerGpus("2,1")
    one.reserve(seen, 2)

    def gpus(of: WorkerGpus, *wanted: int) -> list[int | None]:
        taken = [of.take(index, seen) for index in wanted]
        return [None if each is None else each.device.index for each in taken]

    assert gpus(one, 0, 1) == [0, 1]
    assert gpus(other, 0, 1) == [2, 2]
    one.give_back(1)
    other.give_back(1)  # shared with 0: stays
    assert gpus(other, 1) == [1]
    assert gpus(one, 1, 2) == [0, 0]
    one.give_back(2)
    assert (one.reserved, other.reserved) == (1, 2)
    one.close()
    other.close()
    assert gpus(WorkerGpus(""), 0) == [None]
    assert os.listdir(tmp_path)
