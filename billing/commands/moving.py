"""Moving money by command: looked at first where it is much, bounded, and told to what enforces."""

from typing import NamedTuple

import click

from billing.books.bounds import Bounds
from billing.commands.running import run_with_redis, tenant_named
from billing.money import to_display
from billing.moves.moves import Move, Moved, book, planned
from core.database import Database
from core.errors import StartupError
from core.redis import Client
from core.settings import Settings

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
yes_option = click.option("--yes", is_flag=True, help="It is meant to move more than $1.00 (or what is set).")
key_option = click.option(
    "--key", required=True, help="Your name for this: said again, it is not done again."
)
reason_option = click.option("--reason", required=True, help="Why; kept in the audit log.")


class Ask(NamedTuple):
    """How a move is asked for."""

    dry_run: bool
    yes: bool
    as_json: bool


class Outcome(NamedTuple):
    """What a move does, or did."""

    moved: Moved
    booked: bool


def run_move(tenant: str, move: Move, ask: Ask) -> Outcome:
    """Do it, or only look. Who calls shows the outcome, then `say_unasked`."""
    bounds = Bounds.of(Settings())
    unasked = Bounds(bounds.unasked_nano, min(bounds.unasked_nano, bounds.most_nano))

    async def run(db: Database, redis: Client) -> Outcome:
        owner = (await tenant_named(db, tenant)).tenant_id
        found = await planned(db, owner, move)
        if ask.dry_run or (found.nano > bounds.unasked_nano and not ask.yes and not found.done):
            return Outcome(found, False)
        return Outcome(await book(db, redis, owner, move, bounds if ask.yes else unasked), True)

    return run_with_redis(run)


def say_unasked(outcome: Outcome, ask: Ask) -> None:
    """Raises StartupError where it was only looked at, and nobody asked for that."""
    if not outcome.booked and not ask.dry_run:
        moved = to_display(outcome.moved.nano)
        raise StartupError(f"nothing is booked: this moves {moved}. Where that is meant, say --yes")
