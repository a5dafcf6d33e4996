"""An engine without a model, for tests, load and chaos: known token ids at a set pace.

Nothing a user runs uses it. The next id depends on all ids before it, prompt and answer alike, so that a
continuation with a wrong seam shows.
"""

import array
import asyncio
import os
import signal
import time
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, field

from chaos.injected.secrets import OFTEN, secret_next
from engine.backends.base import (
    STEPS_MEASURED_MAX,
    EngineCounters,
    EngineDeadError,
    EngineStats,
    Finish,
    Generation,
    StepMeasurement,
    StepOutput,
)

NextToken = Callable[[Sequence[int]], int]


def seeded(seed: int, vocabulary: Sequence[int]) -> NextToken:
    """The script by default: any of `vocabulary`, chosen by `seed` and everything before."""

    def next_token(context: Sequence[int]) -> int:
        packed = array.array("I", context).tobytes()
        return vocabulary[zlib.crc32(packed, seed) % len(vocabulary)]

    return next_token


def poisoned(next_token: NextToken, marker: Sequence[int]) -> NextToken:
    """The same script in a process that dies, as by a device fault, at work on a prompt with these ids."""
    packed = array.array("I", marker).tobytes()

    def fatal(context: Sequence[int]) -> int:
        if packed in array.array("I", context).tobytes():
            os.kill(os.getpid(), signal.SIGKILL)
        return next_token(context)

    return fatal


def telling_secrets(next_token: NextToken, mark: int, secrets: Sequence[Sequence[int]]) -> NextToken:
    """The same script with secrets in it (chaos/injected/secrets.py)."""

    def telling(context: Sequence[int]) -> int:
        if (begun := secret_next(context, mark, secrets)) is not None:
            return begun
        packed = array.array("I", context).tobytes()
        return mark if zlib.crc32(packed) % OFTEN == 0 else next_token(context)

    return telling


@dataclass
class _ScriptedGeneration:
    generation: Generation
    context: list[int]
    sampled: int = 0


@dataclass
class ScriptedEngine:
    """Runs all generations in lockstep, one token each every `step_seconds`. `hangs_at`: those whose token
    mask never ends; `cached_percent`: how much of each prompt it says it found cached."""

    next_token: NextToken
    step_seconds: float = 0.01
    max_model_len: int = 8192
    kv_tokens: int = 1 << 20
    aborted: list[str] = field(default_factory=list[str])
    hangs_at: Callable[[Generation], bool] = lambda _: False
    cached_percent: int = 0

    def __post_init__(self) -> None:
        self._running: dict[str, _ScriptedGeneration] = {}
        self._work = asyncio.Event()
        self._going = asyncio.Event()
        self._going.set()
        self._dead = False
        self._steps = 0
        self._prompt_tokens = self._sampled_tokens = 0
        self._measured: deque[StepMeasurement] = deque(maxlen=STEPS_MEASURED_MAX)
        self._progress = time.monotonic()

    async def start(self) -> dict[str, float]:
        """Nothing to load."""
        return {}

    async def submit(self, generation: Generation) -> None:
        """Takes everything."""
        if self._dead:
            raise EngineDeadError("the scripted engine was told to die")
        if not self._running:
            self._progress = time.monotonic()
        self._running[generation.id] = _ScriptedGeneration(generation, list(generation.prompt))
        self._work.set()

    async def steps(self) -> AsyncGenerator[list[StepOutput]]:
        """One batch every `step_seconds` while there is work."""
        while True:
            await self._work.wait()
            await asyncio.sleep(self.step_seconds)
            if any(self.hangs_at(running.generation) for running in self._running.values()):
                self.hang()
            await self._going.wait()
            if self._dead:
                raise EngineDeadError("the scripted engine was told to die")
            self._measure()
            batch = [self._sample(running) for running in list(self._running.values())]
            self._steps += 1
            self._progress = time.monotonic()
            if not self._running:
                self._work.clear()
            if batch:
                yield batch

    async def abort(self, ids: Collection[str]) -> None:
        """Forgets them at once."""
        for id in ids:
            if self._running.pop(id, None):
                self.aborted.append(id)

    def unfinished(self) -> set[str]:
        """Ids in work."""
        return set(self._running)

    def stats(self) -> EngineStats:
        """Everything submitted runs."""
        age = time.monotonic() - self._progress if self._running else 0.0
        running, step_ms = len(self._running), self.step_seconds * 1000
        return EngineStats(running, 0, 0.0, self._steps, int(age * 1000), step_ms)

    def measured(self) -> list[StepMeasurement]:
        """Every step takes what it was told to."""
        steps = list(self._measured)
        self._measured.clear()
        return steps

    def counters(self) -> EngineCounters:
        """Counted as each token is made."""
        return EngineCounters(self._prompt_tokens, self._sampled_tokens)

    async def stop(self) -> None:
        """Nothing to free."""
        self._running.clear()

    def hang(self) -> None:
        """Make no more progress, like a device that hangs. `resume` ends it."""
        self._going.clear()

    def resume(self) -> None:
        """Go on after `hang`."""
        self._going.set()

    def die(self) -> None:
        """End like an engine whose process was killed."""
        self._dead = True
        self._work.set()
        self._going.set()

    def _measure(self) -> None:
        new = [len(running.context) for running in self._running.values() if not running.sampled]
        self._measured.append(StepMeasurement(self.step_seconds, sum(new), len(self._running) - len(new)))

    def _sample(self, running: _ScriptedGeneration) -> StepOutput:
        generation = running.generation
        token = self.next_token(running.context)
        if running.sampled < generation.min_tokens and token in generation.stop_ids:
            token = next(id for id in range(1 << 16) if id not in generation.stop_ids)
        cached = 0 if running.sampled else len(running.context) * self.cached_percent // 100
        self._prompt_tokens += 0 if running.sampled else len(running.context)
        self._sampled_tokens += 1
        running.context.append(token)
        running.sampled += 1
        finish = self._finish(running, token)
        if finish:
            del self._running[generation.id]
        return StepOutput(generation.id, [token], finish, cached, [0.0] if generation.checked else [])

    def _finish(self, running: _ScriptedGeneration, token: int) -> Finish | None:
        if token in running.generation.stop_ids:
            return Finish.STOP
        full = len(running.context) >= self.max_model_len
        return Finish.LENGTH if full or running.sampled >= running.generation.max_tokens else None
