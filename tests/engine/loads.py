"""A worker's answers without a worker: claims, what the engine samples, and a log that takes it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.backends.base import Finish, StepOutput
from engine.queue.types import Append, AppendCode, Appended, Claim
from engine.request import Control
from engine.scheduling.capacity import Capacity
from engine.worker.core import WorkerCore
from engine.worker.worker_calls import WorkerCalls
from tests.engine.builders import FINGERPRINT, START_MS
from tests.engine.tokens import ids_of
from tests.engine.worker.claims import a_claim
from tests.engine.workers import LIMITS, open_answer

NO_FLAGS = Control(0)


def a_load(slots: int = 20) -> WorkerCore:
    """A worker's, with nothing in hand."""
    capacity = Capacity(slots=slots, kv_tokens=100_000, step_tokens=256)
    return WorkerCore("default", FINGERPRINT, capacity, open_answer, LIMITS, 256)


def claim(id: str, *, control: Control = NO_FLAGS, granted: int = 1000, **asked: Any) -> Claim:
    """Of request `id`, which the engine knows by `ck-<id>`."""
    return msgspec.structs.replace(a_claim(**asked), id=id, ck=f"ck-{id}", control=control, granted=granted)


def holding(*ids: str, **asked: Any) -> WorkerCore:
    """A worker that has claimed these."""
    load = a_load()
    load.claimed([claim(id, **asked) for id in ids], START_MS)
    return load


def sampled(id: str, text: str | list[int], finish: Finish | None = None) -> StepOutput:
    """What a step brought for it."""
    return StepOutput(f"ck-{id}", ids_of(text) if isinstance(text, str) else text, finish, 0)


def replies(sent: Sequence[tuple[Any, Append]], code: AppendCode, control: Control) -> list[Appended]:
    """A log that has it all, or says `code`."""
    found: list[Appended] = []
    for _, append in sent:
        kept = AppendCode.ENDED if append.end and code is AppendCode.OK else code
        n, o = append.n0 + len(append.tokens) // 4, append.o0 + len(append.entries)
        found.append(Appended(kept, n, o, control, 1000))
    return found


def flush(load: WorkerCore, code: AppendCode = AppendCode.OK, control: Control = NO_FLAGS) -> WorkerCalls:
    """Append what there is."""
    sent = load.appends(START_MS)
    return load.appended(sent, replies(sent, code, control), START_MS)


def end_of(load: WorkerCore) -> tuple[str, str]:
    """Reason and code of the one end that is to be logged."""
    ((_, append),) = load.appends(START_MS)
    assert append.end is not None
    value = json.loads(append.entries[-1].v)
    return value["reason"], value.get("code", "")


def gone(load: WorkerCore) -> bool:
    """It has forgotten all of it."""
    return (len(load), load.held, load.appends(START_MS)) == (0, set(), [])
