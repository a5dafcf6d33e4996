"""Booking a correction by command: looked at first where it moves much, and told to what enforces."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from billing.books.adjustments import Correction, correct, planned
from billing.books.bounds import Bounds
from billing.books.ledger_rows import LineRow
from billing.commands.running import run_with_redis, show_table, tenant_named
from billing.money import to_display, to_text
from billing.wallets.enforced import enforce
from core.database import Database
from core.errors import StartupError
from core.redis import Client
from core.settings import Settings


class Ask(NamedTuple):
    """How a correction is asked for."""

    dry_run: bool
    yes: bool
    as_json: bool


def book_correction(tenant: str, correction: Correction, ask: Ask) -> None:
    """Book it, or only show it. Raises StartupError where it moves more than goes without --yes."""
    bounds = Bounds.of(Settings())
    unasked = Bounds(bounds.unasked_nano, min(bounds.unasked_nano, bounds.most_nano))

    async def book(db: Database, redis: Client) -> tuple[Sequence[LineRow], bool]:
        owner = (await tenant_named(db, tenant)).tenant_id
        lines = await planned(db, owner, correction)
        nano = sum(line.amount_nano for line in lines)
        if ask.dry_run or (abs(nano) > bounds.unasked_nano and not ask.yes):
            return lines, False
        lines = await correct(db, owner, correction, bounds if ask.yes else unasked)
        await enforce(db, redis, owner, correction.request)
        return lines, True

    lines, booked = run_with_redis(book)
    show_table([_facts(line, booked) for line in lines], ask.as_json, "the books say so already")
    if not booked and not ask.dry_run:
        moved = to_display(abs(sum(line.amount_nano for line in lines)))
        raise StartupError(f"nothing is booked: this moves {moved}. Where that is meant, say --yes")


def _facts(line: LineRow, booked: bool) -> dict[str, Any]:
    return {
        "line": line.seq if booked else None,
        "adjusts": line.adjusts_seq,
        "meter": line.meter,
        "quantity": line.quantity,
        "amount": to_text(line.amount_nano),
        "state": "booked" if booked else "not booked",
    }
