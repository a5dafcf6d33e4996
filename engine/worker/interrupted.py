"""Answers of one engine, interrupted at chosen tokens and continued, without a queue: proof that a seam does
not show. The way from log to engine and back is the worker's: `ClaimedRequest`, `continuation`, the engine's
backend."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from billing.usage import PinnedPrices, UsageOwner
from core.configuration.settings import Settings
from core.tasks import cancel_tasks
from engine.backends.base import Engine, Finish, StepOutput
from engine.models.vocabulary import load_tokenizer, stop_ids
from engine.queue.request_log import visible_text
from engine.queue.types import Claim
from engine.request import Control, EndReason, Entry, RequestInput, Sampling, input_encoder
from engine.safety.policy import BuiltInPolicies
from engine.worker.claimed_request import ClaimedRequest
from engine.worker.continuation import ModelLimits, generation, ids_from, pack_ids

TENANT = "seams"
GRANTED = 1 << 30
PRICES = PinnedPrices(book="seams", version=1, input_nano=0, cached_input_nano=0, output_nano=0)


class InterruptedPrompt(msgspec.Struct, frozen=True):
    """A prompt, its sampling, and the numbers of answer tokens, ascending, after which its engine is lost.
    `checked`: with log-probabilities."""

    prompt: list[int]
    sampling: Sampling
    cuts: tuple[int, ...] = ()
    checked: bool = False


class InterruptedAnswer(msgspec.Struct, frozen=True):
    """A whole answer as its log has it. `reason`: of its end, with the code of an error."""

    ids: list[int]
    text: str
    reason: str
    logprobs: list[float]


@dataclass
class _InterruptedRun:
    """One pending answer: its log, and its present claim. Its name in the engine is `number:claim`."""

    ask: InterruptedPrompt
    number: int
    tokens: bytes = b""
    entries: list[Entry] = field(default_factory=list[Entry])
    raw: int = 0
    visible: int = 0
    logprobs: list[float] = field(default_factory=list[float])
    claims: int = 0
    answer: ClaimedRequest | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def cut(self) -> int | None:
        """Number of ids at which this claim is lost; None for the last."""
        return self.ask.cuts[self.claims - 1] if self.claims <= len(self.ask.cuts) else None

    def claim(self) -> Claim:
        """The next claim, from the log."""
        self.claims += 1
        packed_input = RequestInput(
            prompt=pack_ids(self.ask.prompt),
            sampling=self.ask.sampling,
            owner=UsageOwner(project=TENANT, key=TENANT),
            prices=PRICES,
            model=TENANT,
            fingerprint=TENANT,
            accepted_ms=0,
            deadline_ms=0,
        )
        return Claim(
            tenant=TENANT,
            id=str(self.number),
            ck=f"{self.number}:{self.claims}",
            cn=self.claims,
            epoch=1,
            n=len(self.tokens) // 4,
            o=len(self.entries),
            raw=self.raw,
            visible=self.visible,
            input=input_encoder.encode(packed_input),
            tokens=self.tokens,
            granted=GRANTED,
            control=Control(0),
            deaths=0,
            claimed_ms=1,
            first_token_ms=0,
            input_cached=0,
        )

    def log(self) -> None:
        """Append what the answer has, as a worker's flush does."""
        assert self.answer is not None
        if append := self.answer.append(TENANT, 1):
            self.tokens += append.tokens
            self.entries += append.entries
            self.raw, self.visible = append.raw, append.visible
            self.answer.appended(append)
            if append.end is not None:
                self.ended.set()

    def given(self) -> InterruptedAnswer:
        """The finished answer."""
        end = msgspec.json.decode(self.entries[-1].v)
        reason = " ".join(filter(None, (end["reason"], end.get("code"))))
        return InterruptedAnswer(ids_from(self.tokens), visible_text(self.entries), reason, self.logprobs)


class InterruptedEngine:
    """A started engine that loses answers on demand. Stop it at the end."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, limits: ModelLimits, settings: Settings) -> None:
        self.tokenizer = tokenizer
        self._engine = engine
        self._limits = limits
        self._settings = settings
        self._numbers = count()
        self._runs: dict[str, _InterruptedRun] = {}
        self._pump = asyncio.create_task(self._follow())

    @classmethod
    async def start(cls, settings: Settings, folder: Path, max_model_len: int) -> "InterruptedEngine":
        """An engine with the model in `folder`, on vLLM; the process has `engine_environment`."""
        from engine.backends.vllm import VllmEngine  # imports torch

        logging.getLogger("vllm").setLevel(logging.WARNING)
        tokenizer = load_tokenizer(folder)
        engine = VllmEngine(settings, folder, max_model_len)
        await engine.start()
        return cls(engine, tokenizer, ModelLimits(stop_ids(folder, tokenizer), max_model_len), settings)

    async def stop(self) -> None:
        """End the engine. vLLM logs an error about it."""
        logging.getLogger("vllm").setLevel(logging.CRITICAL)
        await cancel_tasks([self._pump])
        await self._engine.stop()

    async def answers(self, asks: Sequence[InterruptedPrompt]) -> list[InterruptedAnswer]:
        """Answer all prompts at once, beside those of other callers, each interrupted where it says. Raises
        the error that ended the engine."""
        runs = [_InterruptedRun(ask, next(self._numbers)) for ask in asks]
        for run in runs:
            await self._claim(run)
        ended = asyncio.gather(*(run.ended.wait() for run in runs))
        await asyncio.wait((ended, self._pump), return_when=asyncio.FIRST_COMPLETED)
        if self._pump.done():
            ended.cancel()
            self._pump.result()
        return [run.given() for run in runs]

    async def _follow(self) -> None:
        async for batch in self._engine.steps():
            for output in batch:
                run = self._runs.get(output.id)
                if run is not None and run.answer is not None:
                    await self._stepped(run, run.answer, output)

    async def _claim(self, run: _InterruptedRun) -> None:
        """Continue from the log, as a worker that has just claimed it."""
        answer = ClaimedRequest(
            run.claim(), self.tokenizer, self._limits, self._settings.entry_bytes_max, BuiltInPolicies()
        )
        run.answer = answer
        self._runs[answer.key] = run
        if reason := answer.completed():
            answer.end(reason)
            run.log()
            return
        asked = generation(answer.key, TENANT, answer.request, answer.prompt, answer.ids, self._limits)
        await self._engine.submit(msgspec.structs.replace(asked, checked=run.ask.checked))

    async def _stepped(self, run: _InterruptedRun, answer: ClaimedRequest, output: StepOutput) -> None:
        """Take a step's ids, up to where the engine is lost."""
        room = len(output.tokens) if run.cut is None else run.cut - len(answer.ids)
        before = len(answer.ids)
        answer.take(output.tokens[:room], output.cached, 1)
        run.logprobs += output.logprobs[: len(answer.ids) - before]
        if run.cut is not None and len(answer.ids) >= run.cut:
            del self._runs[answer.key]
            await self._engine.abort([answer.key])
            run.log()
            await self._claim(run)
            return
        if reason := answer.completed():
            answer.end(reason)
            await self._engine.abort([answer.key])
        elif output.finish is not None:
            proper = output.finish in (Finish.STOP, Finish.LENGTH)
            answer.end(EndReason(output.finish.value) if proper else EndReason.ERROR, output.finish.value)
        run.log()
