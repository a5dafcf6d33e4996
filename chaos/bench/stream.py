"""`python -m chaos bench stream`: tokens/s, TTFT and gaps of Parley, raw AsyncLLM and vLLM's server.

The three run in one process tree on one machine with the same engine arguments; rounds alternate between
them and every figure is the median of the rounds, so a noisy neighbour hits all three alike.
"""

import asyncio
import json
import os
import platform
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from chaos.bench.targets import BenchTarget, EngineArguments, OpenAIServer, ParleyTarget, RawEngineTarget
from chaos.figures.samples import Figures, figures, median
from core.configuration.settings import Settings
from engine.api import prepare_model

Results = dict[int, dict[str, Figures]]


@click.command()
@click.option("--levels", default="1,8,32", show_default=True, help="Concurrent requests, one level each.")
@click.option(
    "--rounds", default=3, show_default=True, help="Rounds per level and target; medians are printed."
)
@click.option("--max-tokens", default=64, show_default=True, help="Tokens of every answer, exactly.")
@click.option("--requests", default=2, show_default=True, help="Requests per caller and round.")
@click.option("--model", default="smollm2", show_default=True, help="Name, folder or hub id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def stream(levels: str, rounds: int, max_tokens: int, requests: int, model: str, as_json: bool) -> None:
    """Compare with raw AsyncLLM and vLLM's server in one run."""
    console = Console(stderr=True)
    settings = Settings()
    folder = asyncio.run(
        prepare_model(model, settings.home, lambda line: console.print(f"[dim]{line}[/dim]"))
    )
    results = asyncio.run(
        _measure(folder, [int(n) for n in levels.split(",")], rounds, max_tokens, requests, console)
    )
    if as_json:
        click.echo(json.dumps({str(n): {k: asdict(v) for k, v in row.items()} for n, row in results.items()}))
    else:
        _print(results, rounds)


async def _measure(
    folder: Path, levels: Sequence[int], rounds: int, max_tokens: int, requests: int, console: Console
) -> Results:
    arguments = EngineArguments(folder, slots=max(levels), kv_mib=512, batched_tokens=256, max_model_len=2048)
    collected: dict[int, dict[str, list[Figures]]] = {}
    async with AsyncExitStack() as stack:
        targets: list[BenchTarget] = []
        for start in (
            RawEngineTarget.start(arguments),
            OpenAIServer.start(arguments),
            ParleyTarget.start(arguments, -(-max(levels) // 16)),
        ):
            targets.append(await start)
            stack.push_async_callback(targets[-1].stop)
            console.print(f"[dim]{targets[-1].name}: ready[/dim]")
        first = 0
        for target in targets:
            await target.run(max(levels), max(levels), 8, 10_000)  # warm-up: kernels, caches, connections
        for level in levels:
            for number in range(rounds):
                for target in targets[number % 3 :] + targets[: number % 3]:
                    first += 1000
                    samples = await target.run(level, level * requests, max_tokens, first)
                    collected.setdefault(level, {}).setdefault(target.name, []).append(figures(samples))
                console.print(f"[dim]{level} concurrent: round {number + 1} of {rounds}[/dim]")
    return {level: {name: median(each) for name, each in row.items()} for level, row in collected.items()}


def _print(results: Results, rounds: int) -> None:
    console = Console(width=110)
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, {platform.machine()}"
    for level, row in results.items():
        table = Table(title=f"{level} concurrent, median of {rounds} rounds ({stamp})", title_justify="left")
        for heading in ("", "tokens/s", "of raw", "TTFT p50", "TTFT p99", "gap p50", "gap p99"):
            table.add_column(heading, justify="left" if not heading else "right")
        base = row[RawEngineTarget.name].tokens_per_second
        for name, each in row.items():
            table.add_row(
                name,
                f"{each.tokens_per_second:.0f}",
                f"{each.tokens_per_second / base:.3f}",
                *(
                    f"{ms:.1f} ms"
                    for ms in (each.ttft_p50_ms, each.ttft_p99_ms, each.gap_p50_ms, each.gap_p99_ms)
                ),
            )
        console.print(table)
