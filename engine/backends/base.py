"""The engine interface of a worker: token ids in, token ids out, one batch per step.

An engine knows no text: detokenizing, stop strings and safety are the worker's, so that they are the same
after a continuation.
"""

from collections.abc import AsyncGenerator, Collection
from enum import StrEnum
from typing import Protocol

import msgspec


class Finish(StrEnum):
    """Reason why an engine ended a generation by itself. ERROR: it failed at this one and goes on with
    others. UNFIT: it cannot give the answer its shape, and no other engine could."""

    STOP = "stop"
    LENGTH = "length"
    ERROR = "error"
    UNFIT = "unfit"


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. `prompt` ends with what a continued answer has so far: its last `tail_tokens` ids,
    which count as output for penalties, for the noise of a `seed` and for the shape that `response_format`
    asks for (engine/grammar/response_format.py). `stop_ids` end it.

    `salt` keeps one tenant's cached prefixes from another's; `max_tokens` >= 1 counts what is still to come;
    `checked` asks for each token's log-probability.
    """

    id: str
    prompt: list[int]
    max_tokens: int
    stop_ids: tuple[int, ...]
    tail_tokens: int = 0
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    response_format: str | None = None
    salt: str = ""
    checked: bool = False


class StepOutput(msgspec.Struct, frozen=True):
    """Output of one step for one generation. `cached`: prompt tokens found in the prefix cache; `logprobs`:
    one for each token, where the generation is `checked`."""

    id: str
    tokens: list[int]
    finish: Finish | None
    cached: int
    logprobs: list[float] = []


class StepMeasurement(msgspec.Struct, frozen=True):
    """Measurement of one step: seconds it took, prompt tokens it computed, sequences it decoded."""

    seconds: float
    prefill_tokens: int
    sequences: int


class EngineStats(msgspec.Struct, frozen=True):
    """State of an engine now. `step_age_ms`: time since it last made progress, 0 while it has nothing to do.

    `preemptions`: sequences that it has put back by itself since it started, for lack of KV memory.
    """

    running: int
    waiting: int
    kv_usage: float
    steps: int
    step_age_ms: int
    step_ms: float
    preemptions: int = 0


class EngineCounters(msgspec.Struct, frozen=True):
    """An engine's own counts since it was made: prompt tokens of generations that gave a token, cached ones
    too, and sampled tokens."""

    prompt: int = 0
    output: int = 0


STEPS_MEASURED_MAX = 64


class EngineDeadError(Exception):
    """The engine is gone for good; its process must end so that a new one can start."""


class GenerationRefusedError(Exception):
    """The engine does not take this generation and never will. The message holds no prompt."""


class Engine(Protocol):
    """An inference engine. One task consumes `steps`; `start` comes first, `stop` last.

    `max_model_len` and `kv_tokens` are known after `start`: the longest sequence, and all that fit at a time.
    """

    max_model_len: int
    kv_tokens: int

    async def start(self) -> dict[str, float]:
        """Load the model. Returns seconds by part of the load. Raises StartupError where it cannot run."""
        ...

    async def submit(self, generation: Generation) -> None:
        """Start a generation. Raises GenerationRefusedError or EngineDeadError."""
        ...

    def steps(self) -> AsyncGenerator[list[StepOutput]]:
        """Batches as they come, never empty, at most one entry an id. Raises EngineDeadError when it dies."""
        ...

    async def abort(self, ids: Collection[str]) -> None:
        """Stop generations: nothing of them comes out of `steps` any more. Unknown ids are fine."""
        ...

    def unfinished(self) -> set[str]:
        """Ids that the engine still works on."""
        ...

    def stats(self) -> EngineStats:
        """Load and progress."""
        ...

    def measured(self) -> list[StepMeasurement]:
        """The steps since the last call, the latest 64 at most."""
        ...

    def counters(self) -> EngineCounters:
        """The engine's own counts, in which aborted generations are too."""
        ...

    async def stop(self) -> None:
        """Free everything."""
        ...
