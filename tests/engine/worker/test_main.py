"""A worker from its start to its first claim, with an engine that is none."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisAwayError

from core.configuration.settings import Settings
from engine import main
from engine.backends.base import EngineDeadError
from engine.models.registry import ModelRecord
from engine.node.reports import WorkerOrder, WorkerOrderKind
from engine.node.supervised_worker import ENGINE_DEAD
from engine.worker import self_test
from engine.worker.continuation import ModelLimits
from tests.engine.tokens import EOS, byte_tokenizer, ids_of

MODEL = ModelRecord("tiny", "1", "print", Path("/tiny"), 100)


@dataclass
class StubEngine:
    """Loads, and has room for so much."""

    kv_tokens: int = 1_000
    started: int = 0

    async def start(self) -> dict[str, float]:
        """Nothing to load."""
        self.started += 1
        return {}


@dataclass
class WorkerContext:
    """What `_work` made and did, in order."""

    happened: list[str] = field(default_factory=list[str])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    dies: bool = False

    @staticmethod
    def engine(_: Any) -> Any:
        """In place of vLLM."""
        return StubEngine()


class _Worker:
    """Begins, and ends at once: in order, or because its engine died."""

    def __init__(self, scene: WorkerContext, *arguments: Any) -> None:
        self._scene = scene
        scene.facts["worker"] = arguments

    def missing(self) -> str:
        """Nothing."""
        return ""

    async def run(self, _: asyncio.Event) -> None:
        """What is beside it begins first."""
        await asyncio.sleep(0)
        self._scene.happened.append("runs")
        if self._scene.dies:
            raise EngineDeadError("gone")

    async def abandon(self) -> None:
        """Noted."""
        self._scene.happened.append("abandons")


def noted(scene: WorkerContext, name: str) -> Callable[..., Awaitable[None]]:
    """Something that is only written down."""

    async def note(*arguments: Any, **_: Any) -> None:
        scene.happened.append(name)
        scene.facts[name] = arguments

    return note


def beside(scene: WorkerContext, name: str) -> Callable[..., Any]:
    """Something that runs beside the worker."""
    return lambda *_: SimpleNamespace(run=noted(scene, name))


async def _model(_: Settings) -> ModelRecord:
    return MODEL


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> WorkerContext:
    """Everything that a worker's process starts is only written down."""
    found, engine = WorkerContext(), StubEngine()
    journal = beside(found, "journal")
    replaced: dict[str, Any] = {
        **{name: noted(found, name) for name in ("_announce", "_prove", "_obey", "announce_alone")},
        **{name: beside(found, name) for name in ("JournalKeeper", "TrialServer")},
        "make_journal": lambda settings, *_: journal() if settings.journal_mib_max else None,
        "model_of": _model,
        "load_tokenizer": lambda _: byte_tokenizer(),
        "stop_ids": lambda *_: (EOS,),
        "_vllm": lambda *facts: found.facts.update(vllm=facts) or engine,
        "Worker": partial(_Worker, found),
        "can_try": lambda: True,
        "has_gpu": lambda: False,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(main, name, value)
    monkeypatch.setattr(main.cpu_share, "restore_cpu_share", lambda: found.happened.append("takes part"))
    monkeypatch.setattr(main.gc, "freeze", lambda: None)
    return found


@pytest.mark.parametrize("supervised", [False, True])
@pytest.mark.parametrize("announced", [False, True])
async def test_what_runs_beside_a_worker(
    scene: WorkerContext, settings: Settings, supervised: bool, announced: bool
):
    """Alone it also does what a supervisor would do: announce the pool, keep the journal, try shapes. The
    engine is proved after it was loaded, and before anything is claimed."""
    code = await main._work(settings, asyncio.Event(), "w1", scene.engine, announced, supervised)
    assert code == 0
    beside = {"_obey", "journal"} | (
        set() if supervised else {"JournalKeeper", "TrialServer", "announce_alone"}
    )
    begun = ["_announce"] * announced + ["takes part", "_prove"]
    assert scene.happened[: len(begun)] == begun
    assert set(scene.happened[len(begun) :]) == beside | {"runs"}


async def test_what_a_worker_works_with(
    scene: WorkerContext, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A shorter length of the operator's wins, a longer one does not; a step takes at least one token of each
    answer; no journal where it is switched off, no trials without their library."""
    monkeypatch.setattr(main, "can_try", lambda: False)
    for asked, length in ((0, 100), (64, 64), (200, 100)):
        changes = {"worker_max_model_len": asked, "journal_mib_max": 0, "worker_slots": 300}
        changed = settings.model_copy(update=changes)
        assert await main._work(changed, asyncio.Event(), "w1", scene.engine, False, False) == 0
        _, proved, _, sizes, _ = scene.facts["_prove"]
        assert (proved.worker_batched_tokens, sizes) == (300, None)
        given, _, engine, record, workload, name, _, journal = scene.facts["worker"]
        assert (given, engine.kv_tokens, record, name, journal) == (proved, 1_000, MODEL, "w1", None)
        assert workload.capacity.step_tokens == 300
        assert workload.__dict__["_limits"] == ModelLimits((EOS,), length)
    assert not {"journal", "TrialServer"} & set(scene.happened)
    assert "JournalKeeper" not in scene.happened


@pytest.mark.parametrize(("asked", "tokens"), [(0, 256), (512, 512)])
async def test_a_real_engine_learns_its_steps_size_unless_it_is_given(
    scene: WorkerContext, settings: Settings, asked: int, tokens: int
):
    """On a CPU it begins with few."""
    changed = settings.model_copy(update={"worker_batched_tokens": asked, "worker_slots": 8})
    await main._work(changed, asyncio.Event(), "w1", None, False, True)
    _, proved, _, sizes, _ = scene.facts["_prove"]
    assert (proved.worker_batched_tokens, sizes is None) == (tokens, asked > 0)
    assert scene.facts["vllm"] == (proved, MODEL, 100)


async def test_an_engine_that_dies_gives_its_work_back_and_ends_the_process(
    scene: WorkerContext, settings: Settings
):
    """With the code that its supervisor knows."""
    scene.dies = True
    assert await main._work(settings, asyncio.Event(), "w1", scene.engine, False, True) == ENGINE_DEAD
    assert scene.happened[-1] == "abandons"


@dataclass
class Sizes:
    """What is known of full steps."""

    is_known: bool = False
    learned: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    def known(self, tokens: int) -> bool:
        """Whether this size was measured."""
        assert tokens == 128
        return self.is_known

    def learn(self, tokens: int, seconds: float) -> None:
        """Measured now."""
        self.learned.append((tokens, seconds))

    def chosen(self) -> int:
        """For the next start."""
        return 256


@pytest.mark.parametrize(
    ("sizes", "took", "learned"),
    [
        (None, 0.5, []),
        (Sizes(is_known=True), 0.5, []),
        (Sizes(), None, []),
        (Sizes(), 0.5, [(128, 0.5)]),
    ],
)
async def test_an_engine_is_proved_and_its_full_step_measured_where_it_is_not_known(
    sizes: Sizes | None,
    took: float | None,
    learned: list[tuple[int, float]],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
):
    """Warm before it is tried, sound before it is measured."""
    done: list[tuple[Any, ...]] = []

    async def noted(name: str, *arguments: Any) -> float | None:
        done.append((name, *arguments))
        return took

    for name in ("warm_up", "check", "full_step"):
        monkeypatch.setattr(self_test, name, lambda _, *more, name=name: noted(name, *more))
    phases: Any = SimpleNamespace(ended=lambda name: done.append((name,)))
    changed = settings.model_copy(update={"worker_batched_tokens": 128})
    engine: Any = StubEngine()
    text: Any = ids_of(self_test.TEXT)
    tokenizer: Any = SimpleNamespace(
        encode=lambda _, add_special_tokens: SimpleNamespace(ids=[] if add_special_tokens else text),
        get_vocab_size=lambda: 257,
    )
    await main._prove(engine, changed, tokenizer, sizes, phases)  # pyright: ignore[reportArgumentType]
    measured = sizes is not None and not sizes.is_known
    assert done == [
        ("warm_up", text, 128),
        ("warm_up",),
        ("check", text, 257),
        ("self_test",),
        *([("full_step", text, 128), ("full_step",)] if measured else []),
    ]
    assert (sizes.learned if sizes else []) == learned


async def test_a_worker_drains_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch):
    """Other orders are its supervisor's, and a Redis that is away is asked again."""
    monkeypatch.setattr(main, "ORDER_WAIT_SECONDS", 0)
    told: list[Any] = [
        RedisAwayError(),
        None,
        WorkerOrder(WorkerOrderKind.KILL, "w1"),
        WorkerOrder(WorkerOrderKind.DRAIN, "w1"),
    ]
    stop = asyncio.Event()

    class _OrderedNodes:
        async def next_order(self, name: str, seconds: float) -> WorkerOrder | None:
            assert (name, seconds, stop.is_set()) == ("w1", 0, False)
            found = told.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

    await main._obey(_OrderedNodes(), "w1", stop)  # pyright: ignore[reportArgumentType]
    assert (told, stop.is_set()) == ([], True)


async def test_a_worker_runs_what_it_was_told_in_the_pool_that_it_was_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A line of `models list` has more in it, which is not the worker's to know."""
    asked: list[Any] = []

    async def registered(_: Settings) -> ModelRecord:
        return MODEL

    monkeypatch.setattr(main, "registered", registered)
    monkeypatch.setattr(main, "require_folder", asked.append)
    far = settings.model_copy(update={"pool": "far"})
    monkeypatch.setenv(
        main.RECORD,
        '{"name":"told","version":"2","fingerprint":"f","folder":"/f","max_model_len":9,"pools":["p"]}',
    )
    assert await main.model_of(far) == ModelRecord("told", "2", "f", Path("/f"), 9)
    assert asked == []
    monkeypatch.delenv(main.RECORD)
    assert await main.model_of(far) == MODEL
    assert len(asked) == 1
