"""`python -m chaos bench noisy`: what a quiet tenant notices of another that sends a hundred times as much.

Its comparison is the same tenant on an equally full worker without a backlog: all slots taken again as they
free, and nobody to wait behind. Raw AsyncLLM, given the same flood, shows what a first-come queue does.
"""

import asyncio
from collections.abc import Mapping
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

OF_FULL_MOST = 1.2
WAITING_MAX = 2
TO_KEEP_FULL = 2
NOISY_TOKENS = (16, 48)
PROBE_TOKENS = 2
IDLE, FULL, FLOOD = "idle", "full, no backlog", "under the flood"


@dataclass
class NoisySamples:
    """One setting's samples, how long the quiet one's requests were in line, and what the worker said."""

    samples: list[Sample] = field(default_factory=list[Sample])
    in_line_ms: list[int] = field(default_factory=list[int])
    watched: WorkerSamples = field(default_factory=WorkerSamples)

    def ttft_ms(self, part: float) -> float:
        """A percentile of the time to the first token."""
        return 1000 * percentile([sample.ttft_seconds for sample in self.samples], part)

    def figures(self, name: str) -> list[Figure]:
        """Its rows."""
        rows = [
            Figure(f"first token, {name}, p{100 * part:.0f}", self.ttft_ms(part), "ms")
            for part in (0.5, 0.95)
        ]
        if self.in_line_ms:
            rows.append(Figure(f"in line, {name}, p95", percentile(self.in_line_ms, 0.95), "ms"))
        if self.watched.running:
            rows.append(Figure(f"sequences in the engine, {name}", percentile(self.watched.running, 0.5), ""))
        return rows


@click.command()
@click.option("--slots", default=16, show_default=True, help="Of the worker, and sequences of raw AsyncLLM.")
@click.option("--flood", default=100, show_default=True, help="Requests that the noisy tenant keeps open.")
@click.option("--rounds", default=3, show_default=True, help="Of each setting, in turns.")
@click.option("--probes", default=20, show_default=True, help="Questions of the quiet tenant in each round.")
@click.option("--raw-probes", default=4, show_default=True, help="Under the flood of raw AsyncLLM.")
@engine_option(BenchEngine.VLLM)
@json_option
def noisy(
    slots: int, flood: int, rounds: int, probes: int, raw_probes: int, engine: BenchEngine, as_json: bool
) -> None:
    """First token of a quiet tenant under another one's flood.

    Goal: p95 at most 1.2 times that on an equally full worker without a backlog.
    """
    setting = CrowdSetting(slots + TO_KEEP_FULL, slots, NOISY_TOKENS, probes, PROBE_TOKENS, first=0)
    found, fifo = asyncio.run(_measure(engine, setting, flood, rounds, raw_probes))
    facts = {"slots": slots, "flood": flood, "engine": engine.value, "rounds": rounds}
    show("noisy", _figures(found, fifo), as_json, facts)


def _figures(found: Mapping[str, NoisySamples], fifo: NoisySamples | None) -> list[Figure]:
    """Of all settings, and of raw AsyncLLM where it was asked."""
    figures = [row for name, met in found.items() for row in met.figures(name)]
    idle, full, under = (found[name].ttft_ms(0.95) for name in (IDLE, FULL, FLOOD))
    figures += [
        Figure("p95 under the flood, of full", under / full, "x", most=OF_FULL_MOST),
        Figure("p95 under the flood, of idle", under / idle, "x"),
        Figure(
            "longest queue inside the engine",
            max(met.watched.waiting_max for met in found.values()),
            "",
            most=WAITING_MAX,
        ),
    ]
    if fifo is not None:
        figures.append(Figure("raw AsyncLLM under the flood: first token, p50", fifo.ttft_ms(0.5), "ms"))
        figures.append(Figure("raw AsyncLLM under the flood, of Parley, p50", _of(fifo, found[FLOOD]), "x"))
    return figures


def _of(fifo: NoisySamples, ours: NoisySamples) -> float:
    return fifo.ttft_ms(0.5) / ours.ttft_ms(0.5)


async def _measure(
    engine: BenchEngine, setting: CrowdSetting, flood: int, rounds: int, raw_probes: int
) -> tuple[dict[str, NoisySamples], NoisySamples | None]:
    found = {name: NoisySamples() for name in (IDLE, FULL, FLOOD)}
    async with bench_installation(engine, setting.busy) as here:
        quiet = await here.asker("quiet")
        crowd = await here.asker("noisy", flood)
        await probed(quiet, quiet, replace(setting, crowd=0, probes=3, first=9000))  # warm-up
        await _ask(here, crowd, quiet, replace(setting, crowd=0, first=8000), IDLE, found)
        for number in range(1, rounds + 1):
            both = [(FULL, setting.crowd), (FLOOD, flood)]
            for name, open_ in both if number % 2 else reversed(both):
                first = 10_000 * number + 5000 * (name == FLOOD)
                await _ask(here, crowd, quiet, replace(setting, crowd=open_, first=first), name, found)
    if engine is BenchEngine.SCRIPTED:
        return found, None
    return found, await _first_come(replace(setting, crowd=flood, probes=raw_probes))


async def _ask(
    here: BenchInstallation,
    crowd: Ask,
    quiet: Ask,
    setting: CrowdSetting,
    name: str,
    found: dict[str, NoisySamples],
) -> None:
    met = found[name]
    async with watching(here, met.watched):
        met.samples += await probed(crowd, quiet, setting)
    await here.idle()
    events = (await here.ended("quiet"))[-setting.probes :]
    met.in_line_ms += [event.claimed_ms - event.accepted_ms for event in events]
    progress(f"{name}: p95 {met.ttft_ms(0.95):.0f} ms of {len(met.samples)}")


async def _first_come(setting: CrowdSetting) -> NoisySamples:
    """The same flood into vLLM's own queue."""
    async with AsyncExitStack() as stack:
        raw = await RawEngineTarget.start(
            engine_testbed.arguments(await engine_testbed.model_folder(), setting.busy)
        )
        stack.push_async_callback(raw.stop)
        return NoisySamples(await raw.probed(setting))
