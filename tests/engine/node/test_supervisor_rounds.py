"""A supervisor's rounds, without workers: what it looks at, reports, meters and obeys, and who may be one."""

import asyncio
import os
from collections import UserList
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import RedisError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.tasks import cancel_tasks
from engine.gpus import DeviceHealth, GpuAssignment
from engine.node import supervisor as supervisors
from engine.node import worker_gpus
from engine.node.reports import (
    NodeReport,
    ReadyTime,
    WorkerOrder,
    WorkerOrderKind,
    WorkerProcessState,
    WorkerReport,
)
from engine.node.supervisor import Supervisor
from engine.node.worker_indexes import WantedWorkers
from engine.queue.types import WorkerView
from tests.support.home import settings_in
from tests.support.patience import wait_until

NO_COUNTS = (
    '{"paid":2}',
    '{"paid":2,"versions":{"1":0}}',
    '{"paid":2,"versions":{"":1}}',
    '{"paid":65,"versions":{"1":1}}',
    '{"paid":2,"versions":{"1":40,"2":40}}',
)
DEVICE = DeviceHealth(3, "GPU-3", 41, 90, 0, False, 0, 1, "NVIDIA H200")


class Slot:
    """A place whose worker is a name."""

    def __init__(self, worker: str, heart: bool = True) -> None:
        self.worker = worker
        self.gpu: GpuAssignment | None = None
        self.looked: list[WorkerView | None] = []
        self.judged: list[str] = []
        self.killed = 0
        self._heart = heart

    def look(self, view: WorkerView | None) -> None:
        """What the pool says of it."""
        self.looked.append(view)

    def judge(self, fault: str) -> None:
        """Of its GPU."""
        self.judged.append(fault)

    def kill(self) -> None:
        """By order."""
        self.killed += 1

    def report(self) -> WorkerReport:
        """How it stands."""
        gpu = self.gpu.device.index if self.gpu else None
        return WorkerReport(0, self.worker, 1, WorkerProcessState.READY, memory_mib=7, gpu=gpu)

    def heartbeat(self) -> ReadyTime | None:
        """Where it is metered."""
        return ReadyTime(self.worker, WorkerProcessState.READY, 1, "d", "cpu") if self._heart else None


class StubPoolNodes:
    """What the pool's keys would be told; `taken`: a biller takes heartbeats."""

    def __init__(self) -> None:
        self.reports: list[NodeReport] = []
        self.beats: list[list[ReadyTime]] = []
        self.orders: list[Any] = []
        self.taken = True
        self.heard: Callable[[], None] = lambda: None

    async def report(self, report: NodeReport) -> None:
        """Of a node."""
        self.reports.append(report)
        if len(self.reports) == 1:  # as a place does whose state changes meanwhile
            self.heard()

    async def beat(self, heartbeats: list[ReadyTime]) -> bool:
        """Ready time."""
        self.beats.append(heartbeats)
        return self.taken

    async def next_order(self, name: str, seconds: float, resizes: bool) -> Any:
        """One; None: nobody gave one in time."""
        await asyncio.sleep(0)
        order = self.orders.pop(0)
        if isinstance(order, Exception):
            raise order
        return order


class StubIndexes(UserList[Slot]):
    """Two places, and what it was last told to run."""

    wanted = paid = 2
    versions: Mapping[str, int] = {"1": 2}

    def resize(self, wanted: WantedWorkers) -> None:
        """As an order says."""
        self.wanted, self.paid, self.versions = wanted.total, wanted.paid, wanted.versions


class Rounds:
    """A supervisor of two places, what it was seen to do, and its time."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.said, self.announced = 100.0, list[tuple[str, dict[str, Any]]](), 0
        monkeypatch.setattr(supervisors, "time", SimpleNamespace(monotonic=lambda: self.now))
        for logger in ("log", "repeated"):
            says = SimpleNamespace(info=self._say, warning=self._say, error=self._say)
            monkeypatch.setattr(supervisors, logger, says)
        monkeypatch.setattr(supervisors, "announce_pool", self._announce)
        self.of: Any = Supervisor(settings, SimpleNamespace(), 0)  # type: ignore[arg-type]
        self.slots, self.nodes = StubIndexes([Slot("w1"), Slot("w2")]), StubPoolNodes()
        self.views = [WorkerView("w1", "f", True, 0, 0, {"running": 2, "steps": 9, "pid": 1})]
        self.of._slots, self.of._pool_nodes = self.slots, self.nodes
        self.of._queue = SimpleNamespace(redis=None, pool="default", workers=self._workers)

    def _say(self, event: str, **facts: Any) -> None:
        self.said.append((event, facts))

    async def _announce(self, *_: object) -> None:
        self.announced += 1

    async def _workers(self) -> list[WorkerView]:
        return self.views

    async def runs(self, loop: Any, until: Callable[[], bool]) -> None:
        """That loop of it, until something is so."""
        task = asyncio.create_task(loop)
        await wait_until(until)
        await cancel_tasks([task])


@pytest.fixture
def settings(home: Path) -> Settings:
    """Of a node and a pool, without a Redis."""
    return settings_in(home, node="n", pool="p/1")


@pytest.fixture
def rounds(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """Nothing has happened yet."""
    return Rounds(settings, monkeypatch)


async def test_a_round_looks_at_each_worker_and_says_how_all_are(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
):
    """Each place hears what the pool says of its own worker; the next round comes as one changes."""
    shown: list[Any] = []
    monkeypatch.setattr(supervisors.instruments, "show_workers", lambda *seen: shown.append(seen))
    rounds.of._devices_missing = "no driver"
    rounds.nodes.heard = rounds.of._changed.set
    await rounds.runs(rounds.of._watch(), lambda: len(rounds.nodes.beats) == 2)
    assert rounds.slots[0].looked[0] is rounds.views[0]
    assert rounds.slots[1].looked[0] is None
    assert shown[0] == (["ready", "ready"], [])
    places = [slot.report() for slot in rounds.slots]
    assert rounds.nodes.reports[0] == NodeReport(
        rounds.of._name, "n", os.getpid(), places, [], "no driver", 2, {"1": 2}, 2
    )
    assert rounds.announced == 2


async def test_ready_time_is_of_workers_that_have_a_name(rounds: Rounds):
    """A place that never had one is not metered, nor one without a meter; lost time is said."""
    await rounds.of._beat()
    assert [each.worker for each in rounds.nodes.beats[0]] == ["w1", "w2"]
    rounds.nodes.taken = False
    rounds.slots[:] = [Slot("", True), Slot("w3"), Slot("w4", heart=False)]
    await rounds.of._beat()
    assert [each.worker for each in rounds.nodes.beats[1]] == ["w3"]
    said = [("supervisor.ready_time_dropped", {"reason": "no biller takes it", "pool": "p/1"})]
    assert rounds.said == said
    rounds.slots[:] = [Slot("")]
    await rounds.of._beat()
    assert (len(rounds.nodes.beats), rounds.said) == (2, said)


def test_each_worker_has_a_line_a_minute(rounds: Rounds):
    """What it says itself of its load, and how warm its GPU is, or why that is not known."""
    views = {view.worker: view for view in rounds.views}
    rounds.now += 59.9
    rounds.of._log_health(views)
    assert rounds.said == []
    rounds.now += 0.1
    rounds.of._devices_missing = "no driver"
    rounds.of._seen = [DEVICE]
    rounds.slots[1].gpu = GpuAssignment(DEVICE, {})
    rounds.of._log_health(views)
    rounds.of._log_health(views)
    none = {name: None for name in ("running", "waiting", "kv_usage", "steps", "step_age_ms")}
    about = {"state": "ready", "memory_mib": 7}
    assert rounds.said == [
        (
            "supervisor.worker_health",
            {"worker": "w1", **about, "gpu": "no driver", **none, "running": 2, "steps": 9},
        ),
        ("supervisor.worker_health", {"worker": "w2", **about, "gpu": 41, **none}),
    ]


async def test_each_gpus_fault_is_judged_at_the_place_that_has_it(rounds: Rounds):
    """Where the node has none, nothing is."""
    await rounds.of._look_at_devices()
    seen: list[Any] = []
    watch = SimpleNamespace(fault="hot", see=lambda *what: seen.append(what))
    rounds.of._devices = SimpleNamespace(read=lambda: [DEVICE], xids=lambda: {"GPU-3": [79]})
    rounds.of._watches = {"GPU-3": watch}
    rounds.slots[1].gpu = GpuAssignment(DEVICE, {})
    await rounds.of._look_at_devices()
    rounds.of._devices.xids = dict
    await rounds.of._look_at_devices()
    assert seen == [(DEVICE, [79]), (DEVICE, [])]
    assert rounds.of._seen == [DEVICE]
    assert [slot.judged for slot in rounds.slots] == [[], ["hot", "hot"]]


async def test_a_kill_is_obeyed_by_the_place_of_its_worker(rounds: Rounds, monkeypatch: pytest.MonkeyPatch):
    """Drains are the worker's own; a Redis that is away is asked again."""
    monkeypatch.setattr(supervisors, "ORDER_WAIT_SECONDS", 0)
    kinds = (WorkerOrderKind.DRAIN, WorkerOrderKind.KILL, WorkerOrderKind.KILL)
    orders = [
        SimpleNamespace(kind=kind, worker=name) for kind, name in zip(kinds, ("w1", "w2", "w9"), strict=True)
    ]
    rounds.nodes.orders = [orders[0], None, RedisError("away"), *orders[1:]]
    await rounds.runs(rounds.of._obey(), lambda: not rounds.nodes.orders)
    assert [slot.killed for slot in rounds.slots] == [0, 1]
    assert rounds.said[0][0] == "supervisor.order_read_failed"


async def test_a_resize_is_obeyed_within_bounds(rounds: Rounds):
    """In all, or of each version. What is no number of workers is refused with a line in the log, and changes
    nothing."""
    good = ('{"paid":2,"versions":{"1":2,"2":1}}', "0", "64")
    for asked in (*good, "65", "-1", "1000000", "two", "²", "", *NO_COUNTS):
        rounds.nodes.orders = [WorkerOrder(WorkerOrderKind.RESIZE, asked)]
        await rounds.of._obey_next()
        if asked == good[0]:
            assert (rounds.slots.versions, rounds.slots.paid) == ({"1": 2, "2": 1}, 2)
    assert (rounds.slots.wanted, rounds.slots.versions) == (64, {"": 64})
    refused = [facts["workers"] for event, facts in rounds.said if event == "supervisor.resize_refused"]
    assert refused == ["65", "-1", "1000000", "two", "²", "", *(each[:10] for each in NO_COUNTS)]


def test_one_supervisor_of_a_node_and_pool_has_a_data_folder(settings: Settings):
    """The second one is told who the first is; once that has ended, another begins."""
    lock = settings.home / "supervisor-n-p%2F1.lock"
    with supervisors._alone(settings):
        assert lock.read_text() == f"{os.getpid()}\n"
        with pytest.raises(StartupError, match=rf"pool p/1 on node n .* \(process {os.getpid()}\)"):
            supervisors._alone(settings).__enter__()
    lock.write_text("123456789012345")
    with supervisors._alone(settings):
        assert lock.read_text() == f"{os.getpid()}\n"


def test_a_data_folder_that_cannot_be_used_is_named(settings: Settings):
    """No bare error of the system."""
    file = settings.home / "file"
    file.touch()
    with pytest.raises(StartupError, match=r"cannot use PARLEY_HOME .*/file/home: "):
        supervisors._alone(settings.model_copy(update={"home": file / "home"})).__enter__()
    new = settings.model_copy(update={"home": settings.home / "a" / "b"})
    with supervisors._alone(new):
        assert new.home.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("seen", "visible", "free", "refused"),
    [
        ([DEVICE], None, False, True),
        ([DEVICE], "0", False, True),
        ([DEVICE], "", False, False),
        ([], None, False, False),
        ([], "0", False, False),
        ([DEVICE], None, True, False),
    ],
)
def test_where_others_have_all_gpus_there_is_no_start(
    rounds: Rounds,
    monkeypatch: pytest.MonkeyPatch,
    seen: list[DeviceHealth],
    visible: str | None,
    free: bool,
    refused: bool,
):
    """Unless the node has none, or none is to be used."""
    monkeypatch.setattr(supervisors.Devices, "open", lambda: SimpleNamespace(read=lambda: seen))
    monkeypatch.setattr(worker_gpus, "reserve", lambda *_: [SimpleNamespace(device=DEVICE)] if free else [])
    monkeypatch.setattr(supervisors, "DeviceWatch", lambda device: device)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if refused:
        with pytest.raises(StartupError, match="other supervisors of node n have all 1 GPUs"):
            rounds.of._open_devices()
        return
    rounds.of._open_devices()
    given = [rounds.of._gpus.take(index, seen) for index in (0, 1)]
    assert [each.device if each else None for each in given] == [DEVICE if free else None] * 2
    assert rounds.of._watches == {device.uuid: device for device in seen}
