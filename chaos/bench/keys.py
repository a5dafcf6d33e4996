"""`chaos bench keys`: what it takes to check an API key, a ticket and a browser's session, on SQLite and on
Postgres, beside an older checkout."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from chaos import postgres
from chaos.bench.samples import percentile
from core.embedded import EmbeddedValkey, ensure_home
from core.settings import Settings

SIDE = Path(__file__).with_name("keys_side.py")
ROOT = Path(__file__).parents[2]
ROUND_SECONDS_MAX = 120


@click.command()
@click.option("--beside", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A checkout.")
@click.option("--pairs", default=7, show_default=True, type=click.IntRange(1, 100))
@click.option("--checks", default=400, show_default=True, type=click.IntRange(10, 10_000))
@click.option("--json", "as_json", is_flag=True)
def keys(beside: Path | None, pairs: int, checks: int, as_json: bool) -> None:
    """p99 of checking a key, a ticket and a session; with --beside as a ratio to another checkout's.

    Each pair runs one after the other, in turns first, each in a process and on databases of its own.
    """
    sides = {"this": ROOT} if beside is None else {"this": ROOT, "beside": beside.resolve()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keys-")))
        socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pg-")))
        stack.enter_context(postgres.running_postgres(socket))
        for kind in ("sqlite", "postgres"):
            found = asyncio.run(_paired(kind, sides, pairs, checks, folder, socket))
            for facts in _figures(kind, found):
                click.echo(json.dumps(facts) if as_json else _line(facts))


async def _paired(
    kind: str, sides: dict[str, Path], pairs: int, checks: int, folder: Path, socket: Path
) -> list[dict[str, dict[str, float]]]:
    """Of each pair and side the p99 in ms, by what was checked."""
    environments: dict[str, dict[str, str]] = {}
    for name, checkout in sides.items():
        home = folder / f"{kind}-{name}"
        ensure_home(Settings(home=home))
        url = f"sqlite+aiosqlite:///{home / 'parley.db'}"
        if kind == "postgres":
            await postgres.execute(socket, f"CREATE DATABASE {name}")
            url = postgres.url(socket, name)
        facts = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": url, "PYTHONPATH": str(checkout)}
        environments[name] = {**os.environ, **facts, "PARLEY_SECRET": "0" * 64}
        _run(["-c", "from billing.main import migrate_command as m; m([])"], environments[name], checkout)
    valkey = EmbeddedValkey(Settings(home=folder / f"{kind}-this"))
    await valkey.start()
    try:
        endpoint = Settings(home=folder / f"{kind}-this").redis_endpoint
        found: list[dict[str, dict[str, float]]] = []
        for pair in range(pairs):
            order = list(sides) if pair % 2 == 0 else list(reversed(sides))
            found.append({})
            for name in order:
                environment = {**environments[name], "PARLEY_REDIS_URL": _text(endpoint)}
                said = await asyncio.to_thread(_run, ["-P", str(SIDE), str(checks)], environment, sides[name])
                times: dict[str, list[float]] = json.loads(said.splitlines()[-1])
                found[-1][name] = {what: percentile(each, 0.99) for what, each in times.items()}
        return found
    finally:
        await valkey.stop()


def _run(arguments: list[str], environment: dict[str, str], checkout: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=ROUND_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise click.ClickException(done.stderr[-2000:])
    return done.stdout


def _text(endpoint: Any) -> str:
    return endpoint.get_secret_value() if hasattr(endpoint, "get_secret_value") else str(endpoint)


def _figures(kind: str, found: list[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for what in found[0]["this"]:
        facts: dict[str, Any] = {"database": kind, "check": what, "pairs": len(found)}
        for side in found[0]:
            facts[f"{side}_p99_ms"] = round(statistics.median(pair[side][what] for pair in found), 3)
        if "beside" in found[0]:
            ratios = sorted(pair["this"][what] / pair["beside"][what] for pair in found)
            facts["ratio"] = round(statistics.median(ratios), 3)
            facts["ratio_low"], facts["ratio_high"] = _interval(ratios)
        rows.append(facts)
    return rows


def _interval(ratios: list[float]) -> tuple[float, float]:
    """About 95 % for the median of 7 to 10 pairs: all but the outermost on either side."""
    cut = 1 if len(ratios) >= 8 else 0
    return round(ratios[cut], 3), round(ratios[-1 - cut], 3)


def _line(facts: dict[str, Any]) -> str:
    line = f"{facts['database']:9}{facts['check']:9}p99 {facts['this_p99_ms']:7.3f} ms"
    if "ratio" in facts:
        interval = f"[{facts['ratio_low']}, {facts['ratio_high']}]"
        line += f", beside {facts['beside_p99_ms']:7.3f} ms, ratio {facts['ratio']} {interval}"
    return line
