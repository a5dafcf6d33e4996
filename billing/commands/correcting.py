"""Booking a correction by command, line by line."""

from typing import Any

from billing.books.ledger_rows import LineRow
from billing.commands.moving import Ask, Outcome, run_move, say_unbooked
from billing.commands.running import show_table
from billing.money import to_text
from billing.moves.moves import CorrectMove


def book_correction(tenant: str, move: CorrectMove, ask: Ask) -> None:
    """Book it, or only show it. Raises StartupError where it moves more than goes without --yes."""
    outcome = run_move(tenant, move, ask)
    lines = [_facts(line, outcome) for line in outcome.moved.lines]
    show_table(lines, ask.as_json, "the books say so already")
    say_unbooked(outcome, ask)


def _facts(line: LineRow, outcome: Outcome) -> dict[str, Any]:
    return {
        "line": line.seq if outcome.booked else None,
        "adjusts": line.adjusts_seq,
        "meter": line.meter,
        "quantity": line.quantity,
        "amount": to_text(line.amount_nano),
        "state": outcome.state,
    }
