"""`parley usage correct|refund`: books a correction, line by line."""

from typing import Any

import click

from billing.cli.arguments import WHOLE_TOKENS
from billing.cli.moves import MoneyMove, check_booked, moved, yes_option
from billing.cli.operations import CommandTerms, asks
from billing.cli.run_command import show_table
from billing.money import to_display, to_text
from billing.operations import corrections
from billing.operations.corrections import CorrectionLine, CorrectionMade, CorrectRequest, RefundRequest
from core.terminal.terminal import print_json, print_line

ALREADY = "the books say so already: nothing is changed"
NOTHING: dict[str, Any] = {
    **{"line": None, "adjusts": None, "meter": None, "quantity": 0},
    **{"amount": "0.00", "amount_nano": 0, "state": ALREADY},
}
REQUEST = {"request": {"metavar": "REQUEST"}}
TOKENS = {name: {"type": WHOLE_TOKENS} for name in ("input", "cached_input", "output")}


@click.command("correct")
@yes_option
@asks(corrections.correct_request, arguments=("request",), options=REQUEST | TOKENS)
def correct_command(ask: CorrectRequest, how: CommandTerms, yes: bool) -> None:
    """Bring what was billed for REQUEST (its id) to what it used in truth.

    \b
        parley usage correct ID --tenant acme --output 120 --cause ticket-17 --dry-run
        parley usage correct ID --tenant acme --output 120 --cause ticket-17

    Adds lines with the difference, at the price it was billed by; what is there stays. A request has no more
    tokens than its model holds. Above PARLEY_CORRECTION_CENTS_MAX a second person approves it first: see
    `parley approvals list`.
    """
    _show(moved(corrections.correct_request, ask, how, yes), how)


@click.command("refund")
@yes_option
@asks(corrections.refund_request, arguments=("request",), options=REQUEST)
def refund_command(ask: RefundRequest, how: CommandTerms, yes: bool) -> None:
    """Give back all that was billed for REQUEST (its id), its own price too, to what paid it.

    \b
        parley usage refund ID --tenant acme --cause ticket-17 --dry-run
        parley usage refund ID --tenant acme --cause ticket-17

    Above PARLEY_CORRECTION_CENTS_MAX a second person approves it first: see `parley approvals list`.
    """
    _show(moved(corrections.refund_request, ask, how, yes), how)


def _show(move: MoneyMove[CorrectionMade], how: CommandTerms) -> None:
    lines = [_facts(line, move, how.as_json) for line in move.answer.lines]
    if not lines and how.as_json:
        print_json(NOTHING)
    show_table(lines, how.as_json, ALREADY)
    if lines and not how.as_json:
        print_line(f"in all: {to_display(move.answer.amount.value)}")
    check_booked(move, how)


def _facts(line: CorrectionLine, move: MoneyMove[CorrectionMade], as_json: bool) -> dict[str, Any]:
    nano = line.amount.value
    amounts = {"amount": to_text(nano), "amount_nano": nano} if as_json else {"amount": to_display(nano)}
    return {
        "line": line.line if move.booked else None,
        "adjusts": line.adjusts,
        "meter": line.meter,
        "quantity": line.quantity,
        **amounts,
        "state": move.state,
    }
