"""A worker's calls, one at a time, with nothing behind them: what it makes of each reply and each number."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError, ResponseError

from engine.backends.base import EngineDeadError
from engine.queue.types import AppendCode
from engine.worker import worker as workers
from engine.worker.worker import Worker
from engine.worker.worker_calls import WorkerCalls
from tests.engine.worker.ended_answers import an_ended_answer


class NoWork(SimpleNamespace):
    """A workload with no answer in hand."""

    def __len__(self) -> int:
        return 0


class Alone:
    """A worker and what it was seen to do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[Any] = []
        self.counted: list[Any] = []
        self.replies: list[Any] = []
        self.claimed: set[tuple[str, str]] = set()
        self.age_ms, self.alive = 0, True
        for name in ("appends", "leases_lost", "orphans"):
            add = SimpleNamespace(add=lambda *what, name=name: self.counted.append((name, *what)))
            monkeypatch.setattr(workers.instruments, name, add)
        monkeypatch.setattr(workers.instruments, "show_worker", lambda *_: None)
        self.of: Any = object.__new__(Worker)
        for name, value in {
            "name": "w",
            "_info": {},
            "_journal": None,
            "_changed": asyncio.Event(),
            "_last_flush": 0.0,
            "_renewed": 0.0,
            "_lease_seconds": 3.0,
            "_unknown": set(),
            "_hopeless": set(),
            "_record": SimpleNamespace(pool="default", fingerprint="f"),
            "_redis": None,
            "_clock": SimpleNamespace(now_ms=lambda: 0, set=self._nothing),
            "_counted": SimpleNamespace(took=lambda _: None, hours=lambda _: {}),
            "_queue": SimpleNamespace(
                append=self._append, claimed=self._claimed, renew=self._renew, now_ms=None
            ),
            "_engine": SimpleNamespace(unfinished=set, stats=self._stats),
            "_workload": NoWork(
                appended=lambda *_: WorkerCalls(),
                given_up=lambda answer: self.did.append(("given up", answer)) or WorkerCalls(),
                reconcile=lambda *_: WorkerCalls(),
                held=set(),
                margin=1.0,
                step_predicted_ms=7,
                prefill_tokens_per_second=1,
                waiting_max=0,
            ),
        }.items():
            setattr(self.of, name, value)
        self.of._start_over = self._start_over
        self.of._do = self._nothing
        self.of._publish_counts = self._nothing

    async def _nothing(self, *_: object) -> None:
        pass

    async def _append(self, _: str, appends: list[Any]) -> list[Any]:
        self.did.append(len(appends))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return [SimpleNamespace(code=reply)] * len(appends)

    async def _claimed(self, _: str) -> set[tuple[str, str]]:
        return self.claimed

    async def _renew(self, _name: str, age_ms: int, info: dict[str, Any]) -> Any:
        self.did.append((age_ms, info["step_predicted_ms"]))
        return SimpleNamespace(alive=self.alive, control=[])

    async def _start_over(self) -> None:
        self.did.append("start over")

    def _stats(self) -> Any:
        return SimpleNamespace(step_age_ms=self.age_ms, running=1, waiting=0, kv_usage=0.12345, steps=9)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    """Nothing was asked yet."""
    return Alone(monkeypatch)


def sent(count: int) -> list[Any]:
    """So many answers and what is to be appended to their logs."""
    return [(an_ended_answer(), SimpleNamespace(end=None, n0=1)) for _ in range(count)]


@pytest.mark.parametrize("code", AppendCode)
async def test_what_was_not_taken_is_sent_again_at_once(alone: Alone, code: AppendCode):
    """Not with the next step, which may be long in coming; each reply is counted."""
    alone.replies = [code]
    await alone.of._append(sent(1))
    taken = (AppendCode.OK, AppendCode.DUP, AppendCode.ENDED)
    assert alone.of._changed.is_set() == (code not in taken)
    assert alone.counted == [("appends", 1, {"code": code.value})]


async def test_one_that_breaks_the_call_is_given_up_and_the_others_go_through(alone: Alone):
    """Each is tried by itself; what everybody is refused for now is nobody's fault."""
    alone.replies = [ResponseError("WRONGTYPE"), AppendCode.OK, ResponseError("WRONGTYPE"), AppendCode.OK]
    pairs = sent(3)
    await alone.of._append(pairs)
    assert alone.did == [3, 1, 1, ("given up", pairs[1][0]), 1]
    alone.replies = [OutOfMemoryError("OOM")]
    with pytest.raises(ResponseError):
        await alone.of._append(pairs)


async def test_claims_that_nobody_works_on_are_given_back_the_second_time_and_once(alone: Alone):
    """A reply that is late explains the first time; where it does not help the others must not suffer."""
    alone.claimed = {("t", "lost")}
    for did in ([], ["start over"], ["start over"], ["start over"]):
        await alone.of._reconcile()
        assert alone.did == did
    alone.claimed = {("t", "lost"), ("t", "next")}
    for did in (1, 2, 2):
        await alone.of._reconcile()
        assert len(alone.did) == did


@pytest.mark.parametrize(
    ("age_ms", "alive", "starts_over"),
    [(0, True, False), (2_999, False, True), (3_000, False, False), (24_000, True, False)],
)
async def test_a_lost_lease_is_begun_anew_by_an_engine_that_makes_steps(
    alone: Alone, age_ms: int, alive: bool, starts_over: bool
):
    """What hangs is not given more work: its lease stays lost."""
    alone.age_ms, alone.alive = age_ms, alive
    await alone.of._renew()
    assert ("start over" in alone.did) == starts_over
    assert alone.did[0] == (age_ms, 7)
    assert alone.counted == ([("leases_lost", 1)] if starts_over else [])
    assert math.isinf(alone.of._renewed) == (not alive)
    assert bool(alone.of.missing()) == (not alive)


async def test_an_engine_without_a_step_for_24_seconds_is_dead(alone: Alone):
    """Its worker ends, so that another one is started."""
    alone.age_ms = 24_001
    with pytest.raises(EngineDeadError, match="no engine step for 24001 ms"):
        await alone.of._renew()
    assert alone.did == []
