"""`python -m chaos bench start`: what a worker's start takes, by phase, and what its imports cost.

The phases are the worker's own (`worker.started` in its log), from the process's first moment to its claim.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import click

from chaos.bench import engine_testbed
from chaos.bench.engine_testbed import BenchEngine, engine_option
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation.testbed import RunningProcess, SessionTestbed, ground

START_SECONDS_MAX = 240.0
IMPORTS = (
    ("python alone", "pass"),
    ("the worker's modules", "import engine.main"),
    ("the worker's modules, and vLLM", "import engine.main, engine.backends.vllm"),
)
Starts = list[dict[str, int]]


@click.command()
@click.option("--starts", default=3, show_default=True, help="One after the other; medians are printed.")
@engine_option(BenchEngine.VLLM)
@json_option
def start(starts: int, engine: BenchEngine, as_json: bool) -> None:
    """What a worker's start takes, by phase.

    Imports, model load, memory profile, warm-up, self-test.
    """
    progress("imports")
    figures = [
        Figure(f"imports: {name}", _cpu_ms(code), "CPU ms")
        for name, code in IMPORTS
        if engine is BenchEngine.VLLM or "vllm" not in code
    ]
    found = asyncio.run(_measure(engine, starts))
    for name in max(found, key=len):
        took = statistics.median(phases.get(name, 0) for phases in found)
        figures.append(Figure(f"start: {name.removesuffix('_ms')}", took, "ms"))
    show("start", figures, as_json, {"engine": engine.value, "starts": starts})


async def _measure(engine: BenchEngine, starts: int) -> Starts:
    found: Starts = []
    async with ground(worker_threads=1) as site:
        settings: dict[str, object] = {"test_backend": "scripted"}
        if engine is BenchEngine.VLLM:
            await engine_testbed.register(site)
            settings = {"model": engine_testbed.MODEL}
        for number in range(1, starts + 1):
            found.append(await _start(site, settings))
            progress(f"start {number}: {found[-1]['total_ms'] / 1000:.1f} s")
    return found


async def _start(site: SessionTestbed, settings: dict[str, object]) -> dict[str, int]:
    running = await site.start(["-m", "core.cli", "worker"], worker_threads=1, **settings)
    try:
        line = await _started(running)
    finally:
        await running.stop()
    return {name: value for name, value in line.items() if name.endswith("_ms")}


async def _started(running: RunningProcess) -> dict[str, int]:
    """The log's line. A RuntimeError where the worker ended before it."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while running.alive and time.monotonic() < deadline:
        for line in running.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and '"worker.started"' in line:
                return json.loads(line)
        await asyncio.sleep(0.1)
    raise RuntimeError("the worker did not start")


def _cpu_ms(code: str) -> float:
    """User and system time of a Python process that does only this, the faster of two."""
    return min(_spent(code) for _ in range(2))


def _spent(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"VLLM_CONFIGURE_LOGGING": "0"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
