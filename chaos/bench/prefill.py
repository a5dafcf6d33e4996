"""`python -m chaos bench prefill`: a short request that comes beside one maximal prefill.

Without `long_prefill_token_threshold` vLLM gives every step to the long prompt until it is computed; workers
set it to half of a step. Raw AsyncLLM runs both ways, in turns with Parley.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import click

from chaos.bench import engine_testbed
from chaos.bench.crowd import beside_prefill
from chaos.bench.engine_testbed import BATCHED_TOKENS, BenchEngine, BenchInstallation, bench_installation
from chaos.bench.load import Ask
from chaos.bench.targets import RawEngineTarget
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import Sample
from server.api import PromptRenderer

CONTEXT = 8192
WITHOUT, WITH, PARLEY = "raw, no threshold", "raw, threshold of half a step", "Parley"
Pair = tuple[Sample, Sample]
Once = Callable[[str, int], Awaitable[Pair]]


@click.command()
@click.option("--prompt-tokens", default=6000, show_default=True, help="Of the long request.")
@click.option("--rounds", default=2, show_default=True, help="Of each target, in turns.")
@json_option
def prefill(prompt_tokens: int, rounds: int, as_json: bool) -> None:
    """First token of a short request beside a maximal prefill.

    With and without vLLM's `long_prefill_token_threshold`.
    """
    found = asyncio.run(_measure(prompt_tokens, rounds))
    figures = [
        Figure(f"first token, {who}, {name}", statistics.median(each[at].ttft_seconds for each in pairs), "s")
        for name, pairs in found.items()
        for at, who in enumerate(("long request", "short request"))
    ]
    show("prefill", figures, as_json, {"prompt_tokens": prompt_tokens, "rounds": rounds})


async def _measure(prompt_tokens: int, rounds: int) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {WITHOUT: [], WITH: [], PARLEY: []}
    folder = await engine_testbed.model_folder()
    renderer = PromptRenderer.load(folder)
    async with AsyncExitStack() as stack:
        targets: dict[str, Once] = {}
        for name, threshold in ((WITHOUT, 0), (WITH, BATCHED_TOKENS // 2)):
            arguments = engine_testbed.arguments(folder, 8, CONTEXT, long_prefill_tokens=threshold)
            raw = await RawEngineTarget.start(arguments)
            stack.push_async_callback(raw.stop)
            targets[name] = partial(_raw, raw)
        here = await stack.enter_async_context(bench_installation(BenchEngine.VLLM, 8, CONTEXT))
        targets[PARLEY] = partial(_parley, here, await here.asker("somebody", 2))
        for once in targets.values():
            await once("warm up", 1)
        for number in range(1, rounds + 1):
            for at, (name, once) in enumerate(targets.items()):
                long = prompt_of(renderer, prompt_tokens, 10 * number + at)
                found[name].append(await once(long, 100 * number + at))
                progress(f"{name}: short request {found[name][-1][1].ttft_seconds:.2f} s")
    return found


async def _raw(raw: RawEngineTarget, long: str, first: int) -> Pair:
    other, short = await raw.obey("beside_prefill", long=long, first=first)
    return other, short


async def _parley(here: BenchInstallation, ask: Ask, long: str, first: int) -> Pair:
    pair = await beside_prefill(ask, long, first)
    await here.idle()
    return pair


def prompt_of(renderer: PromptRenderer, tokens: int, number: int) -> str:
    """A text that renders to about so many tokens, unlike those of other numbers from its first word on."""
    sentence = f" Number {number} tells of rivers, bridges and clocks."
    each = len(renderer.render([{"role": "user", "content": sentence * 100}])) / 100
    return sentence * int(tokens / each)
