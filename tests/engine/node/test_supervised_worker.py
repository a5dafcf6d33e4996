"""A supervisor's place for one worker, by itself: when its worker is ended, started again and given up."""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from core.configuration.settings import Settings
from core.errors import StartupError
from engine.backends.environment import usable_cpus
from engine.gpus import DeviceHealth, GpuAssignment
from engine.models.known import RECORD
from engine.node import supervised_worker
from engine.node.reports import ReadyTime, WorkerProcessState, WorkerReport
from engine.node.supervised_worker import Backoff
from tests.engine.node.worker_rig import MODEL, Process, WorkerRig, seen
from tests.support.home import settings_in

DEVICE = DeviceHealth(3, "GPU-3", 40, 90, 0, False, 0, 1, "NVIDIA H200")


@pytest.fixture
def settings(home: Path) -> Settings:
    """Of one node; without a Redis."""
    return settings_in(home, node="n 1", worker_start_seconds_max=8)


@pytest.fixture
def place(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> WorkerRig:
    """Nothing runs there."""
    monkeypatch.setattr(supervised_worker, "_memory_mib", lambda _pid: None)
    return WorkerRig(settings, monkeypatch)


async def test_a_worker_that_is_not_ready_in_time_is_ended(place: WorkerRig, monkeypatch: pytest.MonkeyPatch):
    """At the limit it may still become so; behind it it is told to go, and is killed where it does not."""
    later: list[Any] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *asked: later.append(asked))
    process = place.runs()
    assert place.looks(8.0, seen("another")).state is WorkerProcessState.STARTING
    report = place.looks(0.5, None)
    assert (report.state, report.why) == (WorkerProcessState.DRAINING, "not ready after 8 s")
    assert place.changes == 1
    place.looks(1.0, None)
    assert process.told == ["terminate"]
    assert later == [(15.0, process.kill)]


async def test_a_worker_without_a_lease_is_ended_after_thirty_seconds(place: WorkerRig):
    """Counted from the last time that it had one; it was ready, so its start is not looked at any more."""
    process = place.runs()
    place.slot._why = "ended with code 1"
    report = place.looks(1.0, seen())
    assert (report.state, report.why, place.changes) == (WorkerProcessState.READY, "", 1)
    for _ in range(10):
        assert place.looks(3.0, seen(alive=False)).state is WorkerProcessState.READY
    report = place.looks(0.5, None)
    assert (report.state, report.why) == (WorkerProcessState.DRAINING, "no lease for 30 s")
    assert (process.told, place.changes) == (["terminate"], 2)


async def test_who_did_not_look_for_long_blames_nobody(place: WorkerRig):
    """A supervisor that was stopped finds a worker that was stopped with it: both go on."""
    place.runs()
    place.looks(1.0, seen())
    assert place.looks(100.0, None).state is WorkerProcessState.READY
    for _ in range(6):
        assert place.looks(5.0, None).state is WorkerProcessState.READY
    assert place.looks(5.0, None).state is WorkerProcessState.DRAINING


def test_where_nothing_runs_nothing_is_ended(place: WorkerRig):
    """Between two workers."""
    assert place.looks(8.5, None).state is WorkerProcessState.STARTING
    assert place.changes == 0
    place.slot.kill()


async def test_a_fault_takes_a_worker_out_once(place: WorkerRig):
    """It is counted when it comes; without it the place works again."""
    process = place.runs(WorkerProcessState.READY)
    for fault in ("xid 79", "xid 79", "hot"):
        place.slot.judge(fault)
        assert place.slot.report().why == fault
    assert (process.told, place.slot.report().state) == (["terminate"], WorkerProcessState.DRAINING)
    assert place.counted == [("alarms", {"kind": "device"})]
    assert not place.slot._well.is_set()
    place.slot.judge("")
    assert place.slot._well.is_set()
    assert place.slot.report().why == "xid 79"  # what it was taken out for


def test_a_fault_where_nothing_runs_is_kept(place: WorkerRig):
    """The next worker is not started."""
    place.slot.judge("hot")
    assert place.slot.report() == WorkerReport(2, "w", 0, WorkerProcessState.STARTING, why="hot")


async def test_a_report_says_how_a_place_stands(place: WorkerRig, monkeypatch: pytest.MonkeyPatch):
    """Its memory is looked at every ten seconds, and only while something runs."""
    read = iter((700, 800))
    monkeypatch.setattr(supervised_worker, "_memory_mib", lambda of: next(read) if of == Process.pid else 0)
    place.slot.gpu = GpuAssignment(DEVICE, {})
    assert place.slot.report().memory_mib is None
    place.runs(WorkerProcessState.READY)
    place.slot._starts, place.slot._backoff = 5, Backoff(3)
    expected = WorkerReport(2, "w", 4711, WorkerProcessState.READY, 5, 3, 700, "", 3)
    assert place.slot.report() == expected
    place.now += 10.0
    assert place.slot.report().memory_mib == 700
    place.now += 0.5
    assert place.slot.report().memory_mib == 800


def test_memory_is_that_of_a_worker_and_all_that_it_started(monkeypatch: pytest.MonkeyPatch):
    """In MiB; nothing is known of one that is gone."""

    def process(bytes_: int, *started: Any) -> Any:
        memory = SimpleNamespace(rss=bytes_)
        return SimpleNamespace(
            memory_info=lambda: memory, children=lambda recursive=False: list(started) if recursive else []
        )

    family = {1: process(3 << 20, process(2 << 20), process(1 << 19), process(1 << 19))}
    monkeypatch.setattr(supervised_worker.psutil, "Process", family.__getitem__)
    assert supervised_worker._memory_mib(1) == 6  # pyright: ignore[reportPrivateUsage]
    gone = psutil.NoSuchProcess(2)
    monkeypatch.setattr(supervised_worker.psutil, "Process", Mock(side_effect=gone))
    assert supervised_worker._memory_mib(2) is None  # pyright: ignore[reportPrivateUsage]


def test_a_place_is_metered_by_its_gpu_or_where_cpus_are(place: WorkerRig, settings: Settings):
    """Else by nothing. On one node the CPUs of each pool are a device of its own, so that none is dropped."""
    found = [place.slot.heartbeat()]
    for pool in ("default", "b"):
        place.slot._settings = settings.model_copy(update={"meter_cpu": True, "pool": pool})
        found.append(place.slot.heartbeat())
    place.slot.gpu = GpuAssignment(DEVICE, {})
    found.append(place.slot.heartbeat())
    devices = [("cpu-n%201-default-2", "cpu"), ("cpu-n%201-b-2", "cpu"), ("GPU-3", "h200")]
    assert found == [None, *(ReadyTime("w", WorkerProcessState.STARTING, 1, *device) for device in devices)]


async def test_the_fourth_start_that_loads_nothing_is_an_alarm(place: WorkerRig):
    """One that was ready, drained, lost its engine or is known to the pool begins the count anew."""
    for fine in ({"loaded": True}, {"code": 0}, {"code": 70}, {"known": True}):
        for _ in range(3):
            await place.slot._count_load(1)
        place.slot._loaded = "loaded" in fine
        place.queue.registered = ["another", "w"] if "known" in fine else ["another"]
        await place.slot._count_load(fine.get("code", 1))
        place.slot._loaded, place.queue.registered = False, []
        assert place.slot._load_failures == 0
    for count in range(1, 6):
        assert place.slot._alarmed == (count > 4)
        place.queue.away = 1 if count == 2 else 0  # nobody says that it was registered
        await place.slot._count_load(1)
        assert place.counted == ([("alarms", {"kind": "load"})] if count >= 4 else [])
    assert place.slot.report().why == "its model has not loaded 4 times: see worker-2.log"


@pytest.mark.parametrize(("code", "why", "outcome"), [(0, "drain", "drained"), (9, "lost", "died")])
async def test_what_a_worker_held_is_given_back_once(
    place: WorkerRig, monkeypatch: pytest.MonkeyPatch, code: int, why: str, outcome: str
):
    """Tried twenty times while Redis is away; then its lease lapses by itself."""
    monkeypatch.setattr(supervised_worker, "RELEASE_RETRY_SECONDS", 0)
    for away in (19, 20):
        place.queue.away = away
        await place.slot._release(code)
    assert place.queue.left == [("w", why)]
    assert place.counted == [("worker_exits", {"outcome": outcome})] * 2


@pytest.mark.parametrize(
    ("code", "loaded", "failures", "why", "state"),
    [
        (1, True, 0, "ended with code 1", "restarting"),
        (1, False, 3, "ended with code 1, not ready by then", "restarting"),
        (0, True, 0, "before", "restarting"),
        (1, False, 4, "before", "alarm"),
    ],
)
async def test_between_two_workers_it_is_said_why(
    place: WorkerRig, code: int, loaded: bool, failures: int, why: str, state: str
):
    """What an alarm says is not covered by the next end."""
    place.slot._why, place.slot._loaded, place.slot._load_failures = "before", loaded, failures
    await place.slot._pause(code, asyncio.Event())
    assert (place.slot.report().why, place.slot.report().state, place.changes) == (why, state, 1)


async def test_a_worker_is_started_with_what_it_needs(
    place: WorkerRig, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Its command and log; only a later one gives way to those that work, and one after an alarm is told."""
    started: list[Any] = []
    modest: list[int] = []
    process = Process(7)

    async def spawn(argv: list[str], env: dict[str, str], log: Path) -> Process:
        started.append((argv, env["SOCKET"], env["PARLEY_POOL"], log))
        place.now += 5
        return process

    monkeypatch.setattr(supervised_worker, "spawn", spawn)
    monkeypatch.setattr(supervised_worker.cpu_share, "lower_cpu_share", modest.append)
    command = [sys.executable, "-m", "engine.main", "worker", "--name", "w"]
    for failures, more in ((3, []), (4, ["--after-failed-starts"])):
        place.slot._load_failures, place.slot._loaded = failures, True
        place.slot._started_at = place.slot._alive_at = place.slot._measured_at = 0.0
        began = place.now
        assert await place.slot._run_one(asyncio.Event(), {"SOCKET": "s"}) == 7
        log = settings.home / "logs" / "worker-2.log"
        assert started.pop() == ([*command, *more], "s", "default", log)
        assert (place.slot._started_at, place.slot._alive_at, place.slot._loaded) == (began, began, False)
        assert place.slot._state is (WorkerProcessState.ALARM if more else WorkerProcessState.STARTING)
        assert modest == ([Process.pid] if more else [])
        assert (process.told.pop(), place.slot.report().pid) == ("kill", 0)
    assert (place.slot.report().starts, place.changes) == (2, 2)
    assert (place.asked, place.slot.version, place.slot.report().fingerprint) == (["", "1"], "1", "f1")
    assert (settings.home / "logs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("flag", ["is_surge", "is_modest", "neither"])
async def test_a_start_beside_others_leaves_the_cores_to_them(
    place: WorkerRig, monkeypatch: pytest.MonkeyPatch, flag: str
):
    """Its first one too, where it is beyond what is paid or of another version; a surge is not metered."""
    modest: list[int] = []

    async def spawn(*_: object) -> Process:
        return Process(7)

    monkeypatch.setattr(supervised_worker, "spawn", spawn)
    monkeypatch.setattr(supervised_worker.cpu_share, "lower_cpu_share", modest.append)
    place.slot.gpu = GpuAssignment(DEVICE, {})
    setattr(place.slot, flag, True)
    await place.slot._run_one(asyncio.Event(), {})
    assert modest == ([] if flag == "neither" else [Process.pid])
    assert (place.slot.heartbeat() is None) == (flag == "is_surge")


async def test_a_worker_that_cannot_be_started_has_ended(place: WorkerRig, monkeypatch: pytest.MonkeyPatch):
    """Its place goes on: code 1."""

    async def spawn(*_: object) -> Process:
        raise StartupError("cannot start it")

    monkeypatch.setattr(supervised_worker, "spawn", spawn)
    assert await place.slot._run_one(asyncio.Event(), {}) == 1
    assert place.slot.report().pid == 0


async def test_a_place_that_is_stopped_asks_its_worker_to_drain(
    place: WorkerRig, monkeypatch: pytest.MonkeyPatch
):
    """Its work is given back, and no other worker is started."""
    process, stop, states = Process(), asyncio.Event(), list[WorkerProcessState]()

    async def spawn(*_: object) -> Process:
        stop.set()
        return process

    monkeypatch.setattr(supervised_worker, "spawn", spawn)
    place.slot._changed = lambda: states.append(place.slot._state)
    await place.slot.keep(stop)
    assert process.told == ["terminate", "kill"]
    assert states == [WorkerProcessState.STARTING, WorkerProcessState.DRAINING]
    assert place.slot.worker.startswith("n 1-2-")
    assert len(place.slot.worker) == len("n 1-2-") + 8
    assert place.queue.left == [(place.slot.worker, "drain")]


async def test_a_sick_place_waits_until_it_is_well_or_stopped(place: WorkerRig):
    """Nothing runs there meanwhile."""
    stop = asyncio.Event()
    place.slot.judge("hot")
    waits = asyncio.create_task(place.slot.keep(stop))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (place.slot.report().state, waits.done()) == (WorkerProcessState.SICK, False)
    stop.set()
    await waits
    assert (place.slot.report().starts, place.slot.worker) == (0, "w")


@pytest.mark.parametrize(
    ("ran", "planned", "before", "seconds"),
    [
        *((59.9, False, failures, wait) for failures, wait in enumerate((0.0, 0.5, 1.0, 2.0, 4.0))),
        (59.9, False, 6, 16.0),
        (59.9, False, 7, 30.0),
        (60.0, False, 7, 0.0),
        (0.0, True, 7, 0.0),
    ],
)
def test_each_failure_doubles_the_wait(ran: float, planned: bool, before: int, seconds: float):
    """Up to half a minute; a minute's run and an end in order begin anew."""
    assert Backoff(before).after_exit(ran, planned).seconds == seconds


def test_what_a_workers_environment_says(place: WorkerRig, settings: Settings):
    """Its own Redis user, its model, its metrics port and its share of cores, unless somebody set them."""
    base = {"PARLEY_REDIS_URL_FILE": "/secrets/url", "PATH": "/bin"}
    share = str(max(1, usable_cpus() // 4))
    plain = place.slot._environment(base, MODEL)
    assert plain["PARLEY_REDIS_URL_FILE"] == "/secrets/url"
    assert plain["PARLEY_WORKER_THREADS"] == share
    assert "PARLEY_METRICS_PORT" not in plain
    assert json.loads(plain[RECORD])["folder"] == "/models/tiny"
    own = {"worker_redis_url": "redis://own", "metrics_port": 9_000, "pool": "p/1", "worker_threads": 3}
    place.slot._settings = settings_in(settings.home, **own)
    place.slot.gpu = GpuAssignment(DEVICE, {"CUDA_VISIBLE_DEVICES": "GPU-3"})
    given = place.slot._environment(base, MODEL)
    assert "PARLEY_REDIS_URL_FILE" not in given
    assert given["PARLEY_REDIS_URL"] == "redis://own"
    assert given["PARLEY_METRICS_PORT"] == "9003"
    assert (given["PARLEY_POOL"], given["CUDA_VISIBLE_DEVICES"]) == ("p/1", "GPU-3")
    assert "PARLEY_WORKER_THREADS" not in given
    assert place.slot._log_name == "worker-p%2F1-2.log"
    assert place.slot._environment({"OMP_NUM_THREADS": "2"}, MODEL)["OMP_NUM_THREADS"] == "2"
