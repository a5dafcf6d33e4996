"""`python -m chaos bench interactive`: what somebody who waits notices of a worker that is full of bulk work.

A step of an engine cannot be interrupted, so the comparison is raw AsyncLLM, probed beside as many decoding
streams, in turns with it in one run.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import click

from chaos.bench import engine_testbed
from chaos.bench.crowd import CrowdSetting, probed
from chaos.bench.engine_testbed import (
    BenchEngine,
    BenchInstallation,
    WorkerSamples,
    bench_installation,
    engine_option,
    watching,
)
from chaos.bench.load import Ask
from chaos.bench.targets import RawEngineTarget
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import Sample, percentile

OF_RAW_MOST = 1.15
BEFORE_ENGINE_MS_MAX = 10.0
WAITING_MAX = 2
BULK_TOKENS = (100, 300)
PROBE_TOKENS = 2
PARLEY_IDLE, PARLEY_FULL, RAW_IDLE, RAW_FULL = (
    "idle",
    "full of bulk work",
    "raw, idle",
    "raw, as many streams",
)


@dataclass
class InteractiveSamples:
    """Samples by setting, and what the worker said meanwhile."""

    samples: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]])
    watched: WorkerSamples = field(default_factory=WorkerSamples)
    streams: int = 0
    to_claim_ms: list[int] = field(default_factory=list[int])
    in_engine_ms: list[int] = field(default_factory=list[int])

    def add(self, setting: str, samples: list[Sample]) -> None:
        """One round's."""
        self.samples.setdefault(setting, []).extend(samples)
        progress(f"{setting}: p50 {self.ttft_ms(setting, 0.5):.0f} ms of {len(self.samples[setting])}")

    def ttft_ms(self, setting: str, part: float) -> float:
        """A percentile of the time to the first token."""
        return 1000 * percentile([sample.ttft_seconds for sample in self.samples[setting]], part)

    def figures(self) -> list[Figure]:
        """What is printed."""
        rows: list[Figure] = []
        for setting in self.samples:
            rows += [
                Figure(f"first token, {setting}, p{100 * part:.0f}", self.ttft_ms(setting, part), "ms")
                for part in (0.5, 0.95)
            ]
        full, idle = self.ttft_ms(PARLEY_FULL, 0.5), self.ttft_ms(PARLEY_IDLE, 0.5)
        if RAW_FULL in self.samples:
            of_raw = full / self.ttft_ms(RAW_FULL, 0.5)
            rows.append(Figure("first token under bulk, of raw, p50", of_raw, "x", most=OF_RAW_MOST))
        rows.append(Figure("first token under bulk, of idle, p50", full / idle, "x"))
        return rows + self._inside()

    def _inside(self) -> list[Figure]:
        predicted, running = self.watched.step_predicted_ms, self.watched.running
        claimed = percentile(self.to_claim_ms, 0.95)
        return [
            Figure("accepted to claimed, p50", percentile(self.to_claim_ms, 0.5), "ms"),
            Figure("accepted to claimed, p95", claimed, "ms", most=BEFORE_ENGINE_MS_MAX),
            Figure("claimed to first token sampled, p50", percentile(self.in_engine_ms, 0.5), "ms"),
            Figure("a step as predicted, p50", percentile(predicted, 0.5), "ms"),
            Figure("streams of bulk work beside it, as planned", self.streams, ""),
            Figure("sequences in the engine, p50", percentile(running, 0.5), ""),
            Figure("longest queue inside the engine", self.watched.waiting_max, "", most=WAITING_MAX),
        ]


@click.command()
@click.option("--slots", default=32, show_default=True, help="Of the worker, and sequences of raw AsyncLLM.")
@click.option("--rounds", default=3, show_default=True, help="Of each setting, in turns.")
@click.option("--probes", default=15, show_default=True, help="Questions of each round.")
@engine_option(BenchEngine.VLLM)
@json_option
def interactive(slots: int, rounds: int, probes: int, engine: BenchEngine, as_json: bool) -> None:
    """First token of interactive work on a worker full of bulk.

    Goal: at most 1.15 times what raw AsyncLLM takes beside as many decoding streams (medians).
    """
    setting = CrowdSetting(2 * slots, slots, BULK_TOKENS, probes, PROBE_TOKENS, first=0)
    found = asyncio.run(_measure(engine, slots, rounds, setting))
    show("interactive", found.figures(), as_json, {"slots": slots, "engine": engine.value, "rounds": rounds})


async def _measure(engine: BenchEngine, slots: int, rounds: int, setting: CrowdSetting) -> InteractiveSamples:
    found = InteractiveSamples()
    async with AsyncExitStack() as stack:
        raw: RawEngineTarget | None = None
        if engine is BenchEngine.VLLM:
            raw = await RawEngineTarget.start(
                engine_testbed.arguments(await engine_testbed.model_folder(), slots)
            )
            stack.push_async_callback(raw.stop)
        here = await stack.enter_async_context(bench_installation(engine, slots))
        person = await here.asker("person")
        crowd = await here.asker("bulk", setting.crowd, "bulk")
        info = await here.info()
        found.streams = slots - info.get("slots_interactive", 0)
        setting = replace(setting, busy=found.streams)
        await _idle(found, raw, person, setting)
        for number in range(1, rounds + 1):
            setting = replace(setting, first=10_000 * number)
            if raw is not None and number % 2:
                found.add(RAW_FULL, await raw.probed(replace(setting, crowd=found.streams)))
            await _full(found, here, crowd, person, replace(setting, first=setting.first + 5000))
            if raw is not None and not number % 2:
                found.add(RAW_FULL, await raw.probed(replace(setting, crowd=found.streams)))
        events = (await here.ended("person"))[-rounds * setting.probes :]
        found.to_claim_ms = [event.claimed_ms - event.accepted_ms for event in events]
        found.in_engine_ms = [event.first_token_ms - event.claimed_ms for event in events]
    return found


async def _idle(
    found: InteractiveSamples, raw: RawEngineTarget | None, person: Ask, setting: CrowdSetting
) -> None:
    """Each alone; the first questions only warm up."""
    alone = replace(setting, crowd=0)
    warm = replace(alone, probes=3, first=8000)
    await probed(person, person, warm)
    found.add(PARLEY_IDLE, await probed(person, person, replace(alone, first=2000)))
    if raw is not None:
        await raw.probed(warm)
        found.add(RAW_IDLE, await raw.probed(replace(alone, first=4000)))


async def _full(
    found: InteractiveSamples, here: BenchInstallation, crowd: Ask, person: Ask, setting: CrowdSetting
) -> None:
    async with watching(here, found.watched):
        found.add(PARLEY_FULL, await probed(crowd, person, setting))
    await here.idle()
