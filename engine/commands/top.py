"""`parley queue top`: a pool's lines, tenants and workers, live in the terminal."""

import asyncio
import contextlib

import click
import msgspec
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engine.commands.connection import Pool, in_pool, pool_option
from engine.commands.text import console, duration, time_of_day, worker_table
from engine.inspect import PoolSnapshot

TENANTS_SHOWN = 20


@click.group()
def command() -> None:
    """The line of requests in front of a pool's workers."""


@command.command()
@click.option("--once", is_flag=True, help="Print it once; also where the output is no terminal.")
@click.option("--interval", default=1.0, show_default=True, type=click.FloatRange(0.2, 60), help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@pool_option
def top(once: bool, interval: float, as_json: bool, pool: str | None) -> None:
    """Classes, tenants and workers of a pool, again and again until Ctrl-C."""
    output = console()
    if as_json:
        action = _print_json
    elif once or not output.is_terminal:
        action, once = _print, True
    else:
        action = _live
    with contextlib.suppress(KeyboardInterrupt):
        in_pool(pool, lambda found: action(found, output, interval, once))


def _interrupted() -> bool:
    """Ctrl-C cancels the task that runs this, once; redis-py can swallow that in the middle of a call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _print_json(pool: Pool, output: Console, interval: float, once: bool) -> None:
    while not _interrupted():
        click.echo(msgspec.json.encode(await pool.inspection.snapshot()))
        if once:
            return
        await asyncio.sleep(interval)


async def _print(pool: Pool, output: Console, interval: float, once: bool) -> None:
    output.print(page(await pool.inspection.snapshot()))


async def _live(pool: Pool, output: Console, interval: float, once: bool) -> None:
    with Live(console=output, screen=True, auto_refresh=False) as live:
        while not _interrupted():
            live.update(page(await pool.inspection.snapshot()), refresh=True)
            await asyncio.sleep(interval)


def page(seen: PoolSnapshot) -> Group:
    """One screen."""
    waiting = sum(each.waiting for each in seen.classes)
    running = sum(each.running for each in seen.classes)
    title = f"pool {seen.pool}   {waiting} waiting, {running} running, {seen.parked} parked"
    heading = Text(f"{title}   {time_of_day(seen.at_ms)}", style="bold")
    return Group(heading, _classes(seen), _tenants(seen), worker_table(seen.workers))


def _classes(seen: PoolSnapshot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for name in ("waiting", "oldest", "running"):
        table.add_column(name, justify="right")
    for each in seen.classes:
        oldest = duration(each.oldest_ms if each.waiting else None)
        table.add_row(each.priority, str(each.waiting), oldest, str(each.running))
    return table


def _tenants(seen: PoolSnapshot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("tenant")
    for name in ("waiting", "running", "tokens in flight", "weight", "served"):
        table.add_column(name, justify="right")
    table.add_column("")
    for each in seen.tenants[:TENANTS_SHOWN]:
        numbers = (f"{each.tokens:,}", f"{each.weight:g}", f"{each.served:,}")
        capped = "at a cap" if each.blocked else ""
        table.add_row(each.tenant, str(each.waiting), str(each.running), *numbers, capped)
    if len(seen.tenants) > TENANTS_SHOWN:
        table.add_row(f"and {len(seen.tenants) - TENANTS_SHOWN} more")
    return table
