"""`parley queue top`: a pool's lines, tenants and workers, live in the terminal."""

import asyncio
import contextlib

import click

from core.terminal.terminal import is_terminal, print_json
from core.terminal.terminal_tables import Block, Styled, Table, live, print_blocks
from engine.cli.connection import in_pool, pool_option
from engine.cli.formatting import duration, time_of_day, worker_table
from engine.operations.inspection import Inspection, PoolSnapshot

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
    if as_json:
        action = _print_json
    elif once or not is_terminal():
        action, once = _print, True
    else:
        action = _live
    with contextlib.suppress(KeyboardInterrupt):
        in_pool(pool, lambda found: action(found, interval, once))


def _interrupted() -> bool:
    """True after Ctrl-C, which cancels the task that runs this, once; redis-py can swallow that in a call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _print_json(pool: Inspection, interval: float, once: bool) -> None:
    while not _interrupted():
        print_json(await pool.snapshot())
        if once:
            return
        await asyncio.sleep(interval)


async def _print(pool: Inspection, interval: float, once: bool) -> None:
    print_blocks(*page(await pool.snapshot()))


async def _live(pool: Inspection, interval: float, once: bool) -> None:
    with live(screen=True) as update:
        while not _interrupted():
            update(*page(await pool.snapshot()))
            await asyncio.sleep(interval)


def page(seen: PoolSnapshot) -> list[Block]:
    """Blocks of one screen."""
    waiting = sum(each.waiting for each in seen.classes)
    running = sum(each.running for each in seen.classes)
    title = f"pool {seen.pool}   {waiting} waiting, {running} running, {seen.parked} parked"
    heading = Styled(f"{title}   {time_of_day(seen.at_ms)}", "bold")
    return [heading, _classes(seen), _tenants(seen), worker_table(seen.workers)]


def _classes(seen: PoolSnapshot) -> Table:
    table = Table(ruled=True)
    table.columns("class")
    table.columns("waiting", "oldest", "running", right=True)
    for each in seen.classes:
        oldest = duration(each.oldest_ms if each.waiting else None)
        table.row(each.priority, str(each.waiting), oldest, str(each.running))
    return table


def _tenants(seen: PoolSnapshot) -> Table:
    table = Table(ruled=True)
    table.columns("tenant")
    table.columns("waiting", "running", "tokens in flight", "weight", "served", right=True)
    table.columns("")
    for each in seen.tenants[:TENANTS_SHOWN]:
        numbers = (f"{each.tokens:,}", f"{each.weight:g}", f"{each.served:,}")
        capped = "at a cap" if each.blocked else ""
        table.row(each.tenant, str(each.waiting), str(each.running), *numbers, capped)
    if len(seen.tenants) > TENANTS_SHOWN:
        table.row(f"and {len(seen.tenants) - TENANTS_SHOWN} more")
    return table
