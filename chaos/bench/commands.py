"""`chaos bench commands`: the CPU that a command takes before its first word: help, and what only reads."""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

import click

from chaos.figures.figures import Figure, json_option, progress, show
from chaos.injected.switches import PATH
from chaos.installation.testbed import ground
from core.command_pages import kept_pages

HELP_SECONDS_MAX = 0.2
READING_SECONDS_MAX = 0.6
STDERR_CHARACTERS_MAX = 2000
# One of each room that keeps something. {} is the tenant.
READING = (
    "alerts list --platform",
    "approvals list",
    "audit list",
    "budgets list --tenant {}",
    "cost-centers list --tenant {}",
    "keys list --tenant {}",
    "limits list --tenant {}",
    "models list",
    "noisy list",
    "plans list",
    "pools list",
    "projects list --tenant {}",
    "quarantine list",
    "queue top --once",
    "requests list",
    "sessions list --tenant {}",
    "tenants list",
    "usage show --tenant {}",
    "users list --tenant {}",
    "wallets list",
    "workers list",
)


@click.command()
@click.option("--runs", default=7, show_default=True, type=click.IntRange(1, 1000), help="Of each command.")
@json_option
def commands(runs: int, as_json: bool) -> None:
    """CPU of commands: of every help page's start, and of those that read, on SQLite; medians."""
    show("commands", asyncio.run(_measured(runs)), as_json, {"runs": runs})


async def _measured(runs: int) -> list[Figure]:
    async with ground() as site:
        environment = {**site.environment(), "COLUMNS": "80"}
        environment.pop(PATH, None)  # as installed: without chaos's hooks
        helps = [("--help",), *((name, "--help") for name in sorted(kept_pages()))]
        reads = [tuple(each.format(site.tenant).split()) for each in READING]
        found = {each: await _cpu_seconds(each, environment, runs) for each in (*helps, *reads)}
    return figures_of(
        {" ".join(each): found[each] for each in helps},
        {" ".join(each[:2]): found[each] for each in reads},
    )


def figures_of(helps: Mapping[str, float], reads: Mapping[str, float]) -> list[Figure]:
    """Each command's CPU seconds beside what is aimed at. Pure."""
    return [
        *(Figure(f"parley {name}", took, "CPU s", most=HELP_SECONDS_MAX) for name, took in helps.items()),
        *(Figure(f"parley {name}", took, "CPU s", most=READING_SECONDS_MAX) for name, took in reads.items()),
    ]


async def _cpu_seconds(arguments: Sequence[str], environment: Mapping[str, str], runs: int) -> float:
    """The median of so many runs, each a process of its own that has to succeed."""
    progress(f"parley {' '.join(arguments)}")
    return statistics.median([await asyncio.to_thread(_run, arguments, environment) for _ in range(runs)])


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    argv = [sys.executable, "-m", "core.cli", *arguments]
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise click.ClickException(f"parley {' '.join(arguments)}: {said[-STDERR_CHARACTERS_MAX:]}")
    return usage.ru_utime + usage.ru_stime
