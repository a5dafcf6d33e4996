"""`python -m chaos bench send-files`: how many of our files one send runs, from its frame to `accepted`."""

import asyncio
import json
from pathlib import Path

import click
import uvloop

from chaos.bench.session.reader import BenchReader
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.installation.testbed import RunningProcess, ground

FILES_MAX = 40
WRITE_SECONDS_MAX = 10.0


@click.command("send-files")
@click.option("--sends", default=5, show_default=True, type=click.IntRange(2, 100))
@click.option("--list", "listed", is_flag=True, help="Name them, too.")
@json_option
def send_files(sends: int, listed: bool, as_json: bool) -> None:
    """Files of ours that one send runs in a gateway, up to `accepted`.

    Python files of which a function ran, and Lua scripts that were called with their preludes. Only those
    count that each of several sends ran: what a gateway does by the clock is not the send's. The first send,
    which fills caches, is left out.
    """
    found = uvloop.run(_measured(sends))
    if listed:
        progress("\n".join(found))
    show("send-files", figures_of(found), as_json, {"sends": sends})


def figures_of(files: list[str]) -> list[Figure]:
    """How many of each kind, and the aim for all. Pure."""
    lua = sum(each.endswith(".lua") for each in files)
    return [
        Figure("Python files", len(files) - lua, ""),
        Figure("Lua files", lua, ""),
        Figure("all", len(files), "", most=FILES_MAX),
    ]


async def _measured(sends: int) -> list[str]:
    async with ground() as site:
        report = site.settings.home / "files.json"
        gateway = await site.gateway(("files", report))
        reader = await BenchReader.connect(gateway.url, site.key)
        await reader.send()
        ran = [await _of_one(gateway, reader, report, number) for number in range(sends)]
        reader.close()
    return sorted(set[str].intersection(*ran))


async def _of_one(gateway: RunningProcess, reader: BenchReader, report: Path, number: int) -> set[str]:
    gateway.profile(begin=True)
    await asyncio.sleep(0.1)  # the signal is there before the frame
    await reader.send(f"Tell me story {number}.")
    gateway.profile(begin=False)
    async with asyncio.timeout(WRITE_SECONDS_MAX):
        while not (ran := _reported(report)):  # noqa: ASYNC110  (another process writes it, once)
            await asyncio.sleep(0.05)
    return ran


def _reported(report: Path) -> set[str]:
    """What the gateway wrote, once; none yet."""
    try:
        found = set(json.loads(report.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return set()
    report.unlink()
    return found
