"""`parley workers`: see a pool's workers, drain one, kill one."""

import click

from billing.rendering import CommandTerms, answered, asks, facts_of
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import print_blocks
from engine.cli.formatting import worker_table
from engine.operations import workers
from engine.operations.pool_questions import PoolQuestion
from engine.operations.workers import NameWorker, OrderedWorker


@click.group()
def command() -> None:
    """The processes that run the models."""


@command.command("list")
@asks(workers.list_workers)
def list_command(ask: PoolQuestion, how: CommandTerms) -> None:
    """Every worker of the pool: where it is, what it has in hand and how its engine does.

    States: starting, ready, draining, lapsed (it stopped renewing its lease), restarting, sick (its GPU must
    not be used), alarm (its model does not load).
    """
    rows = answered(workers.list_workers, ask, how).items
    if how.as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_blocks(worker_table(rows))
    else:
        print_line(f"There is no worker in pool {ask.pool}." if ask.pool else "There is no worker.")


@command.command()
@asks(workers.drain_worker, arguments=("worker",))
def drain(ask: NameWorker, how: CommandTerms) -> None:
    """Let WORKER give back what it has in hand and end; its supervisor starts another in its place.

    Its requests go on elsewhere, at once where another worker has room. Readers see a pause.
    """
    ordered = answered(workers.drain_worker, ask, how)
    still = f"still here after {workers.DRAIN_SECONDS_MAX:.0f} s: `parley workers kill {ask.worker}` ends it"
    _show(ordered, how, "drained", "moved", still)


@command.command()
@asks(workers.kill_worker, arguments=("worker",))
def kill(ask: NameWorker, how: CommandTerms) -> None:
    """End WORKER at once (SIGKILL, its engine too) through its node's supervisor, which starts another.

    For emergencies and chaos: `drain` does the same in order.
    """
    ordered = answered(workers.kill_worker, ask, how)
    still = f"still here after {workers.KILL_SECONDS_MAX:.0f} s: see its supervisor's log"
    _show(ordered, how, "killed", "given back", still)


def _show(ordered: OrderedWorker, how: CommandTerms, done: str, moved: str, still: str) -> None:
    """Print what became of an order. Raises StartupError where it is not obeyed."""
    held = f"{ordered.held} {'request' if ordered.held == 1 else 'requests'}"
    if not ordered.gone and not how.dry_run:
        raise StartupError(f"{ordered.worker} is {still}", facts_of(ordered, True))
    if how.as_json:
        print_json(facts_of(ordered, True))
    elif how.dry_run:
        print_line(f"{ordered.worker} would be {done}: it holds {held}")
    else:
        print_line(f"{ordered.worker} is {done}: {held} {moved}")
