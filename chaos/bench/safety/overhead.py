"""What the default policy costs real vLLM: the same prompts with it and without, in turns, on one worker.

Requests go straight into the pool's queue, as no gateway admits one without a policy. First text is when a
request's first text stands in the log.
"""

import asyncio
import statistics
import time
from dataclasses import dataclass

from billing.api import PinnedPrices, UsageOwner
from chaos.bench.engine_testbed import BenchEngine, BenchInstallation, bench_installation, model_folder
from chaos.bench.load import prompt
from chaos.figures.figures import Figure, progress
from chaos.figures.samples import interval, percentile
from core.clock import now_ms
from core.ids import uuid7
from engine.api import (
    DEFAULT_POLICY,
    Enqueue,
    EntryKind,
    LogReader,
    PriorityClass,
    RequestInput,
    Sampling,
    input_encoder,
)
from engine.models.vocabulary import load_tokenizer

LOOK_SECONDS = 0.01
TOKENS = 64
WARM_UP_TOKENS = 8
TENANT = "bench"


@dataclass(frozen=True)
class RoundRates:
    """Tokens a second of all streams together, and the median milliseconds to the first text."""

    tokens_per_second: float
    first_text_ms: float


class FilteredPool:
    """Answers of one worker, with and without the policy."""

    def __init__(self, installation: BenchInstallation, prompts: list[list[int]], fingerprint: str) -> None:
        self._queue = installation.queue
        self._log = LogReader(installation.redis, installation.queue.pool)
        self._prompts = prompts
        self._fingerprint = fingerprint

    async def round(self, policy: str, tokens: int) -> RoundRates:
        """All prompts at once, each answered with so many tokens."""
        began = time.perf_counter()
        answers = [self._answered(ids, policy, tokens, number) for number, ids in enumerate(self._prompts)]
        first_texts = await asyncio.gather(*answers)
        seconds = time.perf_counter() - began
        return RoundRates(len(self._prompts) * tokens / seconds, 1000 * percentile(first_texts, 0.5))

    async def _answered(self, ids: list[int], policy: str, tokens: int, number: int) -> float:
        """Seconds to its first text. Returns once it has ended."""
        began, accepted_ms = time.perf_counter(), now_ms()
        request = RequestInput(
            prompt=b"".join(id.to_bytes(4, "little") for id in ids),
            sampling=Sampling(max_tokens=tokens, min_tokens=tokens, seed=number),
            owner=UsageOwner(project="bench", key="bench"),
            prices=PinnedPrices(book="bench", version=1, input_nano=1, cached_input_nano=1, output_nano=1),
            model="bench",
            fingerprint=self._fingerprint,
            accepted_ms=accepted_ms,
            deadline_ms=accepted_ms + 600_000,
            policy=policy,
        )
        name = uuid7(accepted_ms)
        await self._queue.enqueue(
            Enqueue(
                tenant=TENANT,
                id=name,
                body_hash="x" * 64,
                input=input_encoder.encode(request),
                fingerprint=self._fingerprint,
                prompt_tokens=len(ids),
                max_tokens=tokens,
                deadline_ms=request.deadline_ms,
                accepted_ms=accepted_ms,
                granted=tokens,
                model="bench",
                priority=PriorityClass.INTERACTIVE,
            )
        )
        return await self._followed(name, began)

    async def _followed(self, name: str, began: float) -> float:
        head, first = 0, 0.0
        while True:
            for entry in await self._log.read(TENANT, name, head, 1000):
                head = entry.o
                if entry.k is EntryKind.TEXT and not first:
                    first = time.perf_counter() - began
                if entry.k is EntryKind.END:
                    return first or time.perf_counter() - began
            await asyncio.sleep(LOOK_SECONDS)


async def overhead(streams: int, pairs: int) -> list[Figure]:
    """Ratios with the policy to without, medians of the pairs with their 95 % intervals."""
    tokenizer = load_tokenizer(await model_folder())
    prompts = [tokenizer.encode(prompt(number)).ids for number in range(streams)]
    throughput: list[float] = []
    first_text: list[float] = []
    async with bench_installation(BenchEngine.VLLM, streams) as installation:
        [worker] = await installation.queue.workers()
        pool = FilteredPool(installation, prompts, worker.fingerprint)
        await pool.round(DEFAULT_POLICY, WARM_UP_TOKENS)
        for number in range(pairs):
            order = ("", DEFAULT_POLICY)[:: 1 if number % 2 == 0 else -1]
            rounds = {policy: await pool.round(policy, TOKENS) for policy in order}
            plain, filtered = rounds[""], rounds[DEFAULT_POLICY]
            throughput.append(filtered.tokens_per_second / plain.tokens_per_second)
            first_text.append(filtered.first_text_ms / plain.first_text_ms)
            progress(
                f"pair {number + 1} of {pairs}: {filtered.tokens_per_second:.0f} to "
                f"{plain.tokens_per_second:.0f} tokens/s, first text {filtered.first_text_ms:.0f} to "
                f"{plain.first_text_ms:.0f} ms"
            )
    return [*_ratio("tokens/s", throughput, least=0.97), *_ratio("first text", first_text)]


def _ratio(name: str, ratios: list[float], least: float | None = None) -> list[Figure]:
    low, high = interval(sorted(ratios))
    return [
        Figure(f"vLLM with the policy to without: {name}", statistics.median(ratios), "", least=least),
        Figure(f"{name}: 95 %, low", low, ""),
        Figure(f"{name}: 95 %, high", high, ""),
    ]
