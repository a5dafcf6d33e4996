"""`parley workers`: see a pool's workers, drain one, kill one."""

import asyncio
import time

import click

from billing.api import PLATFORM
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import print_blocks
from engine.cli.connection import PoolConnection, in_pool, json_option, on_record, pool_option
from engine.cli.formatting import worker_table
from engine.node.reports import WorkerOrderKind
from engine.operations.worker_rows import WorkerRow

DRAIN_SECONDS_MAX = 20.0
KILL_SECONDS_MAX = 10.0
POLL_SECONDS = 0.1


@click.group()
def command() -> None:
    """The processes that run the models."""


@command.command("list")
@pool_option
@json_option
def list_command(pool: str | None, as_json: bool) -> None:
    """Every worker of the pool: where it is, what it has in hand and how its engine does.

    States: starting, ready, draining, lapsed (it stopped renewing its lease), restarting, sick (its GPU must
    not be used), alarm (its model does not load).
    """
    rows = in_pool(pool, lambda found: found.inspection.workers())
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_blocks(worker_table(rows))
    else:
        print_line("There is no worker.")


@command.command()
@click.argument("worker")
@pool_option
def drain(worker: str, pool: str | None) -> None:
    """Let WORKER give back what it has in hand and end; its supervisor starts another in its place.

    Its requests go on elsewhere, at once where another worker has room. Readers see a pause.
    """
    held = in_pool(pool, lambda found: _drain(found, worker))
    print_line(f"{worker} is drained: {held} {'request' if held == 1 else 'requests'} moved")


@command.command()
@click.argument("worker")
@pool_option
def kill(worker: str, pool: str | None) -> None:
    """End WORKER at once (SIGKILL, its engine too) through its node's supervisor, which starts another.

    For emergencies and chaos: `drain` does the same in order.
    """
    held = in_pool(pool, lambda found: _kill(found, worker))
    print_line(f"{worker} is killed: {held} {'request' if held == 1 else 'requests'} given back")


async def _drain(pool: PoolConnection, worker: str) -> int:
    row = await _find(pool, worker)
    if row.state not in ("ready", "draining", "lapsed"):
        raise StartupError(f"{worker} is {row.state}: it has nothing to drain")
    await on_record(pool, PLATFORM, "worker.drain", worker)
    await pool.nodes.order(worker, WorkerOrderKind.DRAIN, worker)
    if not await _gone(pool, worker, DRAIN_SECONDS_MAX):
        raise StartupError(
            f"{worker} is still here after {DRAIN_SECONDS_MAX:.0f} s: `parley workers kill {worker}` ends it"
        )
    return row.claims


async def _kill(pool: PoolConnection, worker: str) -> int:
    row = await _find(pool, worker)
    for report in await pool.nodes.reports():
        if any(slot.worker == worker and slot.pid for slot in report.slots):
            await on_record(pool, PLATFORM, "worker.kill", worker)
            await pool.nodes.order(report.supervisor, WorkerOrderKind.KILL, worker)
            break
    else:
        raise StartupError(f"no supervisor runs {worker}: end process {row.pid} on node {row.node} there")
    if not await _gone(pool, worker, KILL_SECONDS_MAX):
        raise StartupError(f"{worker} is still here after {KILL_SECONDS_MAX:.0f} s: see its supervisor's log")
    return row.claims


async def _find(pool: PoolConnection, worker: str) -> WorkerRow:
    for row in await pool.inspection.workers():
        if row.worker == worker:
            return row
    raise StartupError(f"there is no worker {worker!r} in pool {pool.queue.pool}: see `parley workers list`")


async def _gone(pool: PoolConnection, worker: str, seconds: float) -> bool:
    """True where the worker's process has ended, as far as the pool and its supervisor know."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows = await pool.inspection.workers()
        if not any(row.worker == worker and row.state != "restarting" for row in rows):
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False
