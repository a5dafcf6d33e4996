"""Moves money by command: shows a large move first, proposes one that one person may not make, and updates
enforcement."""

from collections.abc import Callable
from typing import NamedTuple

import click

from billing.approvals.money_actions import MoneyActionResult, Move, book, preview_action
from billing.approvals.one_person import NeedsTwo, OnePerson
from billing.approvals.proposals import propose
from billing.approvals.second_person import shown_second
from billing.booking.amount_bounds import AmountBounds
from billing.cli.run_command import iso_time, run_with_redis, tenant_named
from billing.money import to_display
from billing.tables.approvals import Proposal
from billing.tables.tenants import Tenant
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import RedisClient
from core.sql.database import Database

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
yes_option = click.option("--yes", is_flag=True, help="It is meant to move more than $1.00 (or what is set).")
key_option = click.option("--key", required=True, help="Your name for this: said again, it is done once.")
reason_option = click.option("--reason", required=True, help="Why; kept in the audit log.")


class MoneyActionOptions(NamedTuple):
    """Options of a move."""

    dry_run: bool
    yes: bool
    as_json: bool


class MoneyActionOutcome(NamedTuple):
    """Effect of a move, done or planned; `proposal`: it waits for a second person."""

    moved: MoneyActionResult
    booked: bool
    proposal: Proposal | None = None

    @property
    def state(self) -> str:
        """State in a word or two, for the caller."""
        if self.proposal is not None:
            return "proposed"
        return "booked" if self.booked else "not booked"


def run_money_action(
    tenant: str, wanted: Move | Callable[[Tenant], Move], ask: MoneyActionOptions
) -> MoneyActionOutcome:
    """Do the move, preview it, or propose it. The caller shows the outcome, then calls `print_unbooked`."""
    settings = Settings()
    bounds = AmountBounds.of(settings)

    async def run(db: Database, redis: RedisClient) -> MoneyActionOutcome:
        owner = await tenant_named(db, tenant)
        move = wanted(owner) if callable(wanted) else wanted
        found = await preview_action(db, owner.tenant_id, move)
        if ask.dry_run or (found.nano > bounds.unasked_nano and not ask.yes and not found.done):
            return MoneyActionOutcome(found, False)
        alone = OnePerson(owner.tenant_id, move, bounds, ask.yes, bool(settings.second_person))
        try:
            return MoneyActionOutcome(await book(db, redis, owner.tenant_id, move, alone.check), True)
        except NeedsTwo:
            return MoneyActionOutcome(found, False, await propose(db, settings, owner, move, found.nano))

    return run_with_redis(run)


def print_unbooked(outcome: MoneyActionOutcome, ask: MoneyActionOptions) -> None:
    """Raises StartupError where the move was proposed, or only previewed without being asked to."""
    waiting = outcome.proposal
    if waiting is not None:
        raise StartupError(
            "nothing is booked yet: it is proposed, and a code was sent to "
            f"{shown_second(waiting.second)}, good until {iso_time(waiting.expires_ms)}: "
            f"`parley approvals approve {waiting.id}`"
        )
    if not outcome.booked and not ask.dry_run:
        moved = to_display(outcome.moved.nano)
        raise StartupError(f"nothing is booked: this moves {moved}. Where that is meant, say --yes")
