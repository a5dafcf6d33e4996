"""vLLM behind the engine interface: one AsyncLLM in this process, its engine core in a child.

Deliberately not its per-request generators: outputs are taken from vLLM's collectors once a step, so a step
with 32 sequences wakes one task and not 33. Written for vLLM 0.32; what is not a stable interface there is
used in `_Progress`, `_collect`, `_timed_profile` and `unfinished`, and in what `vllm_plugin` installs. Import
this only in a worker, with `engine_environment` applied.
"""

import asyncio
import contextlib
import mmap
import os
import struct
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from pathlib import Path
from typing import Any

import structlog
from vllm import AsyncEngineArgs, SamplingParams
from vllm.config import VllmConfig
from vllm.exceptions import VLLMClientError
from vllm.inputs.engine import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.exceptions import EngineDeadError as VllmDeadError
from vllm.v1.engine.output_processor import RequestOutputCollector
from vllm.v1.metrics.loggers import StatLoggerBase

from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import reason
from engine.backends import vllm_plugin
from engine.backends.base import (
    STEPS_MEASURED_MAX,
    EngineCounters,
    EngineDeadError,
    EngineStats,
    Finish,
    Generation,
    GenerationRefusedError,
    StepMeasurement,
    StepOutput,
)
from engine.backends.vllm_grammar import CONFIG as GRAMMARS
from engine.backends.vllm_grammar import structured_outputs
from engine.backends.vllm_penalties import TailPenalties, penalties
from engine.backends.vllm_seeded_sampling import TAIL
from engine.models.fingerprint import ENGINE_FLAGS

logger = structlog.get_logger(__name__)

WATCH_SECONDS = 0.25
STEP_SMOOTHING = 0.1


class _Progress(StatLoggerBase):
    """vLLM calls `record` after every step; the class is not a stable interface there."""

    def __init__(self, on_step: Callable[[Any, Any], None]) -> None:
        self._on_step = on_step

    def record(
        self,
        scheduler_stats: Any = None,
        iteration_stats: Any = None,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """One step is done and its outputs are in the collectors."""
        self._on_step(scheduler_stats, iteration_stats)

    def log_engine_initialized(self) -> None:
        """Nothing to log here."""


class VllmEngine:
    """One vLLM engine on this process's device."""

    def __init__(self, settings: Settings, folder: Path, max_model_len: int) -> None:
        self._settings = settings
        self._folder = folder
        self.max_model_len = max_model_len
        self.kv_tokens = 0
        self._llm: AsyncLLM | None = None
        self._collectors: dict[str, RequestOutputCollector] = {}
        self._shaped: set[str] = set()  # those of them that fail because of their shape, if they fail
        self._continued: set[str] = set()  # those that join `_shaped` once their tail was taken
        self._stepped = asyncio.Event()
        self._scheduler: Any = None
        self._steps = 0
        self._step_seconds = 0.0
        self._preemptions = 0
        self._prompt_tokens = self._sampled_tokens = 0
        self._measured: deque[StepMeasurement] = deque(maxlen=STEPS_MEASURED_MAX)
        self._progress = time.monotonic()

    async def start(self) -> dict[str, float]:
        """Load the model. Blocks the loop for seconds: nothing else is served yet. Returns the seconds of
        laying out the memory (`profile`), where the engine core is forked from here."""
        try:
            config = self._arguments().create_engine_config()
        except (ValueError, OSError) as error:
            raise StartupError(f"vLLM cannot run the model in {self._folder}: {reason(error)}") from error
        refuse_other_runner(config)
        if not vllm_plugin.installed():
            raise StartupError(
                "vLLM has not loaded Parley's plugin: name parley in VLLM_PLUGINS or unset it; where that is "
                "not set, install Parley again"
            )
        if current_platform.is_cpu():
            # vLLM asks for spawn here, for the worker processes of its multiprocess executor. There are none,
            # and forking the engine core spares it the 5 s of importing all of this again.
            os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
        profile = _timed_profile()
        try:
            self._llm = AsyncLLM.from_vllm_config(
                config, stat_loggers=[self._progress_of], disable_log_stats=True
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise StartupError(
                f"vLLM did not start with the model in {self._folder}: {reason(error)}"
            ) from error
        self.kv_tokens = (config.cache_config.num_gpu_blocks or 0) * config.cache_config.block_size
        (seconds,) = struct.unpack("d", profile)
        return {"profile": seconds} if seconds else {}

    async def submit(self, generation: Generation) -> None:
        """Hand the ids to vLLM's scheduler."""
        if not self._collectors:
            self._progress = time.monotonic()
        llm = self._running()
        prompt = tokens_input(generation.prompt, cache_salt=generation.salt or None)
        try:
            parameters = _parameters(generation)
            collector = await llm.add_request(generation.id, prompt, parameters)
        except VllmDeadError as error:
            raise EngineDeadError("vLLM's engine core died") from error
        except (VLLMClientError, ValueError, TypeError) as error:
            raise GenerationRefusedError(type(error).__name__) from error
        self._collectors[generation.id] = collector
        if generation.response_format:
            (self._continued if generation.tail_tokens else self._shaped).add(generation.id)
        self._stepped.set()

    async def steps(self) -> AsyncGenerator[list[StepOutput]]:
        """One batch a step. While nothing comes, checks that the engine core is alive."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._stepped.wait()
            self._stepped.clear()
            if self._running().errored:
                raise EngineDeadError("vLLM's engine core died")
            if batch := self._collect():
                yield batch

    async def abort(self, ids: Collection[str]) -> None:
        """Stop generations. Shielded: a cancellation here must not leave vLLM working for nobody."""
        for id in ids:
            self._forget(id)
        llm = self._running()
        if ids and not llm.errored:
            await asyncio.shield(llm.abort(list(ids)))

    def unfinished(self) -> set[str]:
        """Ids that vLLM's frontend holds: they may differ from what we submitted when an abort was lost."""
        return set(self._running().output_processor.external_req_ids)

    def stats(self) -> EngineStats:
        """Load and progress, from the last step's scheduler statistics."""
        seen = self._scheduler
        age = time.monotonic() - self._progress if self._collectors else 0.0
        return EngineStats(
            running=seen.num_running_reqs if seen else 0,
            waiting=seen.num_waiting_reqs if seen else 0,
            kv_usage=seen.kv_cache_usage if seen else 0.0,
            steps=self._steps,
            step_age_ms=int(age * 1000),
            step_ms=self._step_seconds * 1000,
            preemptions=self._preemptions,
        )

    def measured(self) -> list[StepMeasurement]:
        """Steps by the scheduler's count, each with the time since the one before."""
        steps = list(self._measured)
        self._measured.clear()
        return steps

    def counters(self) -> EngineCounters:
        """vLLM's statistics, added up as its `prompt_tokens_total` and `generation_tokens_total` are."""
        return EngineCounters(self._prompt_tokens, self._sampled_tokens)

    async def stop(self) -> None:
        """End the engine core."""
        if self._llm is not None:
            llm, self._llm = self._llm, None
            self._collectors.clear()
            self._shaped.clear()
            self._continued.clear()
            await asyncio.to_thread(llm.shutdown)

    def _arguments(self) -> AsyncEngineArgs:
        settings = self._settings
        gpu: dict[str, Any] = {
            "kv_cache_memory_bytes": None,
            "enforce_eager": False,
        }
        arguments: dict[str, Any] = {
            "model": str(self._folder),
            "dtype": settings.worker_dtype,
            **ENGINE_FLAGS,
            "max_model_len": self.max_model_len,
            "max_num_seqs": settings.worker_slots,
            "max_num_batched_tokens": settings.worker_batched_tokens,
            "long_prefill_token_threshold": settings.worker_batched_tokens // 2,
            "enable_prefix_caching": True,
            "distributed_executor_backend": "uni",
            "kv_cache_memory_bytes": settings.worker_kv_mib << 20,
            "enforce_eager": True,
            "enable_log_requests": False,
            "disable_log_stats": True,
            "enable_logging_iteration_details": True,  # in the statistics; nothing of it is logged
            "structured_outputs_config": GRAMMARS,
            "logits_processors": [f"{TailPenalties.__module__}:{TailPenalties.__name__}"],
            **({} if current_platform.is_cpu() else gpu),
        }
        return AsyncEngineArgs(**arguments)

    def _progress_of(self, _config: VllmConfig, _index: int = 0) -> StatLoggerBase:
        return _Progress(self._on_step)

    def _on_step(self, scheduler: Any, iteration: Any) -> None:
        now = time.monotonic()
        took, self._progress = now - self._progress, now
        self._step_seconds += STEP_SMOOTHING * (took - self._step_seconds)
        self._steps += 1
        self._scheduler = scheduler or self._scheduler
        if iteration is not None:
            self._preemptions += iteration.num_preempted_reqs
            self._prompt_tokens += iteration.num_prompt_tokens
            self._sampled_tokens += iteration.num_generation_tokens
        if scheduler is not None and (step := scheduler.iteration_details) is not None:
            # Not by its own clock: with steps queued behind each other that sees only the wait for a result.
            self._measured.append(StepMeasurement(took, step.num_ctx_tokens, step.num_generation_requests))
        self._stepped.set()

    def _collect(self) -> list[StepOutput]:
        """Empty vLLM's collectors, which merge outputs of several steps. Raises an error that one has."""
        batch: list[StepOutput] = []
        for id, collector in self._collectors.items():
            try:
                output: Any = collector.get_nowait()
            except VllmDeadError as error:
                raise EngineDeadError("vLLM's engine core died") from error
            if output is not None:
                completion = output.outputs[0]
                if completion.token_ids and id in self._continued:
                    self._shaped.add(id)
                finish = self._finish(id, completion.finish_reason) if output.finished else None
                batch.append(
                    StepOutput(
                        id,
                        list(completion.token_ids),
                        finish,
                        output.num_cached_tokens or 0,
                        _logprobs(completion),
                    )
                )
        for output in batch:
            if output.finish:
                self._forget(output.id)
        return batch

    def _forget(self, id: str) -> None:
        self._collectors.pop(id, None)
        self._shaped.discard(id)
        self._continued.discard(id)

    def _finish(self, id: str, reason: str | None) -> Finish:
        """The end by vLLM's reason. An abort that arrives here is not ours and counts as an error."""
        if reason in (Finish.STOP, Finish.LENGTH):
            return Finish(reason)
        return Finish.UNFIT if reason == Finish.ERROR and id in self._shaped else Finish.ERROR

    def _running(self) -> AsyncLLM:
        assert self._llm is not None, "start() comes first"
        return self._llm


def _timed_profile() -> mmap.mmap:
    """A double in memory that a forked engine core shares: the seconds that it takes to profile its model and
    to lay out the KV memory. Stays 0 where the core is started in another way."""
    shared = mmap.mmap(-1, struct.calcsize("d"))
    core: Any = EngineCore
    original = core._initialize_kv_caches

    def timed(*arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return original(*arguments)
        finally:
            shared[:] = struct.pack("d", time.monotonic() - began)

    core._initialize_kv_caches = timed
    return shared


def _logprobs(completion: Any) -> list[float]:
    """Log-probability of each new token, where they were asked for."""
    if completion.logprobs is None:
        return []
    return [by_id[id].logprob for id, by_id in zip(completion.token_ids, completion.logprobs, strict=True)]


def refuse_other_runner(config: VllmConfig) -> None:
    """Raise where vLLM would use another model runner than V1: only that samples on exactly at a seam
    (vllm_penalties, vllm_seeded_sampling). `engine_environment` asks for it."""
    if config.use_v2_model_runner:
        raise StartupError(
            "vLLM would use its V2 model runner, which forgets penalties where an answer is continued: set "
            "VLLM_USE_V2_MODEL_RUNNER=0, and use no vLLM feature that needs the other"
        )


def _parameters(generation: Generation) -> SamplingParams:
    asked = penalties(generation)
    return SamplingParams(
        max_tokens=generation.max_tokens,
        min_tokens=generation.min_tokens,
        temperature=generation.temperature,
        top_p=generation.top_p,
        top_k=generation.top_k,
        min_p=generation.min_p,
        seed=generation.seed,
        logprobs=0 if generation.checked else None,
        stop_token_ids=list(generation.stop_ids),
        structured_outputs=structured_outputs(generation.response_format),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
        extra_args={TAIL: generation.tail_tokens, **asked.pop("extra_args", {})},
        **asked,
    )
