"""`chaos bench keys`: what it takes to check an API key, a ticket and a browser's session, on SQLite and on
Postgres, beside an older checkout."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from chaos.figures.samples import interval, percentile
from chaos.installation import postgres
from core.configuration.settings import Settings
from core.runtime.embedded import EmbeddedValkey, ensure_home

SIDE = Path(__file__).with_name("keys_side.py")
ROOT = Path(__file__).parents[2]
CHECKED = ("key", "ticket", "session")
TURN = 10
MIGRATION_SECONDS_MAX = 120
STOP_SECONDS_MAX = 10


@dataclass(frozen=True)
class Block:
    """What one side's checks of a pair took. Times in ms, the process's CPU of a check in µs."""

    p50: float
    p99: float
    cpu: float


Pair = Mapping[str, Block]


@click.command()
@click.option("--beside", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A checkout.")
@click.option("--pairs", default=21, show_default=True, type=click.IntRange(1, 1000), help="Of each check.")
@click.option(
    "--checks", default=200, show_default=True, type=click.IntRange(10, 10_000), help="A side's of a pair."
)
@click.option("--json", "as_json", is_flag=True)
def keys(beside: Path | None, pairs: int, checks: int, as_json: bool) -> None:
    """p99 of checking a key, a ticket and a session; with --beside as a ratio to another checkout's.

    Each side is a process on a database of its own. Within a pair they take turns of a few checks each, so
    that what else the machine does meets both.
    """
    sides = {"this": ROOT} if beside is None else {"this": ROOT, "beside": beside.resolve()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keys-")))
        socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pg-")))
        stack.enter_context(postgres.running_postgres(socket))
        for kind in ("sqlite", "postgres"):
            for what, found in asyncio.run(_paired(kind, sides, pairs, checks, folder, socket)).items():
                facts = {"database": kind, "check": what, "pairs": pairs, **figures(found)}
                click.echo(json.dumps(facts) if as_json else "\n".join(_lines(facts)))


def figures(found: Sequence[Pair]) -> dict[str, Any]:
    """The sides' medians, and the medians of the pairs' ratios with their 95 % interval. Pure."""
    facts: dict[str, Any] = {}
    for figure in ("p99", "p50", "cpu"):
        sides = {side: [getattr(pair[side], figure) for pair in found] for side in found[0]}
        for side, values in sides.items():
            facts[f"{side}_{figure}"] = round(statistics.median(values), 3)
        if "beside" in sides:
            ratios = sorted(this / other for this, other in zip(sides["this"], sides["beside"], strict=True))
            low, high = interval(ratios)
            facts[f"{figure}_ratio"] = [round(each, 3) for each in (statistics.median(ratios), low, high)]
    return facts


def turns(sides: Sequence[str], checks: int) -> Iterator[tuple[str, int]]:
    """Who checks how often, until each has made its checks. Who is first changes. Pure."""
    for number, done in enumerate(range(0, checks, TURN)):
        for side in sides if number % 2 == 0 else sides[::-1]:
            yield side, min(TURN, checks - done)


async def _paired(
    kind: str, sides: dict[str, Path], pairs: int, checks: int, folder: Path, socket: Path
) -> dict[str, list[Pair]]:
    """By what was checked the blocks of each pair."""
    environments: dict[str, dict[str, str]] = {}
    for name, checkout in sides.items():
        url = ""
        if kind == "postgres":
            await postgres.execute(socket, f"CREATE DATABASE {name}")
            url = postgres.url(socket, name)
        environments[name] = await asyncio.to_thread(_prepared, folder / f"{kind}-{name}", url, checkout)
    valkey = EmbeddedValkey(Settings(home=folder / f"{kind}-this"))
    await valkey.start()
    try:
        return await asyncio.to_thread(_measured, environments, sides, pairs, checks, valkey.socket)
    finally:
        await valkey.stop()


def _prepared(home: Path, url: str, checkout: Path) -> dict[str, str]:
    """A migrated database for one side, and what tells its process of it."""
    ensure_home(Settings(home=home))
    url = url or f"sqlite+aiosqlite:///{home / 'parley.db'}"
    facts = {"PARLEY_HOME": str(home), "PARLEY_DATABASE_URL": url, "PYTHONPATH": str(checkout)}
    environment = {**os.environ, **facts, "PARLEY_SECRET": "0" * 64}
    migrate = [sys.executable, "-c", "from billing.main import migrate_command as m; m([])"]
    done = subprocess.run(
        migrate,
        env=environment,
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=MIGRATION_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise click.ClickException(done.stderr[-2000:])
    return environment


def _measured(
    environments: dict[str, dict[str, str]], sides: dict[str, Path], pairs: int, checks: int, redis: Path
) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                _side({**environments[name], "PARLEY_REDIS_URL": f"unix://{redis}"}, checkout)
            )
            for name, checkout in sides.items()
        }
        for what in CHECKED:
            _pair(running, what, checks)  # what comes first is not like the rest
            found[what] = [_pair(running, what, checks) for _ in range(pairs)]
    return found


@contextmanager
def _side(environment: dict[str, str], checkout: Path) -> Generator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-P", str(SIDE)],
        env=environment,
        cwd=checkout,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


def _pair(running: Mapping[str, "subprocess.Popen[str]"], what: str, checks: int) -> Pair:
    times: dict[str, list[float]] = {name: [] for name in running}
    cpu_ms = dict.fromkeys(running, 0.0)
    for side in running.values():
        _asked(side, f"{what} {checks}")
    for name, number in turns(list(running), checks):
        said = _asked(running[name], f"check {number}")
        times[name] += said["wall_ms"]
        cpu_ms[name] += said["cpu_ms"]
    return {
        name: Block(percentile(times[name], 0.5), percentile(times[name], 0.99), cpu_ms[name] / checks * 1000)
        for name in running
    }


def _asked(side: "subprocess.Popen[str]", line: str) -> Any:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(f"{line}\n")
    side.stdin.flush()
    said = side.stdout.readline()
    if not said:
        raise click.ClickException(f"a side ended at `{line}`: see above")
    return json.loads(said)


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    for figure, unit in (("p99", "ms"), ("p50", "ms"), ("cpu", "µs")):
        line = f"{facts['database']:9}{facts['check']:8}{figure} {facts[f'this_{figure}']:8.3f} {unit}"
        if f"{figure}_ratio" in facts:
            ratio, low, high = facts[f"{figure}_ratio"]
            line += f", beside {facts[f'beside_{figure}']:8.3f} {unit}, ratio {ratio} [{low}, {high}]"
        yield line
