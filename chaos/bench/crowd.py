"""What a single asker meets beside a crowd: probes, one after the other, while others keep an engine busy.

The same code asks Parley over WebSockets and, in the process of `raw_engine.py`, AsyncLLM itself.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from chaos.bench import load
from chaos.bench.load import Ask
from chaos.figures.samples import Sample

BUSY_SECONDS_MAX = 120.0
SETTLE_SECONDS = 1.0
PAUSE_SECONDS = (0.05, 0.25)
LONG_HEAD_START_SECONDS = 1.0


@dataclass(frozen=True)
class CrowdSetting:
    """`crowd` requests are kept open, of `crowd_tokens` (least, most) each; probing begins when `busy` of
    them get tokens. `first`: numbers the prompts, so that no cache helps."""

    crowd: int
    busy: int
    crowd_tokens: tuple[int, int]
    probes: int
    probe_tokens: int
    first: int


class DistinctPrompts:
    """Prompts that no two askers share."""

    def __init__(self, first: int) -> None:
        self._number = first

    def next(self) -> str:
        """One more."""
        self._number += 1
        return load.prompt(self._number)


@dataclass
class _OpenRequests:
    ask: Ask
    setting: CrowdSetting
    answering: int = 0
    busy: asyncio.Event = field(default_factory=asyncio.Event)

    async def caller(self, numbers: random.Random, prompts: DistinctPrompts) -> None:
        """One question after the other."""
        while True:
            started = False
            async for count in self.ask(prompts.next(), numbers.randint(*self.setting.crowd_tokens)):
                if count and not started:
                    started = True
                    self._answers(1)
            self._answers(-started)

    def _answers(self, change: int) -> None:
        self.answering += change
        if self.answering >= self.setting.busy:
            self.busy.set()


async def probed(crowd: Ask, probe: Ask, setting: CrowdSetting) -> list[Sample]:
    """The probes' samples. What the crowd has open at the end is given up."""
    numbers, prompts = random.Random(setting.first), DistinctPrompts(setting.first)
    async with _crowding(_OpenRequests(crowd, setting), numbers, prompts):
        samples: list[Sample] = []
        for _ in range(setting.probes):
            await asyncio.sleep(numbers.uniform(*PAUSE_SECONDS))
            samples.append(await sampled(probe, prompts.next(), setting.probe_tokens))
        return samples


@asynccontextmanager
async def _crowding(
    crowd: _OpenRequests, numbers: random.Random, prompts: DistinctPrompts
) -> AsyncGenerator[None]:
    """A crowd that keeps its engine as busy as its setting says."""
    callers = [asyncio.create_task(crowd.caller(numbers, prompts)) for _ in range(crowd.setting.crowd)]
    try:
        if callers:
            await _busy(crowd.busy, callers)
            await asyncio.sleep(SETTLE_SECONDS)
        yield
    finally:
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)


async def _busy(busy: asyncio.Event, callers: Sequence[asyncio.Task[None]]) -> None:
    """Until the crowd is busy; a caller that fails ends the wait with its error."""
    waiting = asyncio.create_task(busy.wait())
    done, _ = await asyncio.wait(
        [waiting, *callers], timeout=BUSY_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
    )
    waiting.cancel()
    for each in done:
        each.result()
    if not done:
        raise RuntimeError(f"the crowd was not being answered after {BUSY_SECONDS_MAX:.0f} s")


async def beside_prefill(ask: Ask, long: str, first: int) -> tuple[Sample, Sample]:
    """A long prompt, and a short one a second later: the samples of both."""
    other = asyncio.create_task(sampled(ask, long, 2))
    await asyncio.sleep(LONG_HEAD_START_SECONDS)
    short = await sampled(ask, load.prompt(first), 2)
    return await other, short


async def sampled(ask: Ask, prompt: str, max_tokens: int) -> Sample:
    """One answer, timed."""
    started = time.perf_counter()
    arrivals = [(time.perf_counter(), count) async for count in ask(prompt, max_tokens) if count]
    return Sample(started, tuple(arrivals))
