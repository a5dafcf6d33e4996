"""Books a correction by command, line by line."""

from typing import Any

from billing.approvals.money_actions import CorrectionAction
from billing.cli.money_actions import MoneyActionOptions, MoneyActionOutcome, print_unbooked, run_money_action
from billing.cli.run_command import show_table
from billing.ledger.rows import LineRow
from billing.money import to_display, to_text
from core.terminal.terminal import print_json, print_line

ALREADY = "the books say so already: nothing is changed"
NOTHING: dict[str, Any] = {
    **{"line": None, "adjusts": None, "meter": None, "quantity": 0},
    **{"amount": "0.00", "amount_nano": 0, "state": ALREADY},
}


def book_correction(tenant: str, move: CorrectionAction, ask: MoneyActionOptions) -> None:
    """Book the correction, or only show it. Raises StartupError where it moves more than is allowed without
    --yes."""
    outcome = run_money_action(tenant, move, ask)
    lines = [_facts(line, outcome, ask) for line in outcome.moved.lines]
    if not lines and ask.as_json:
        print_json(NOTHING)
    show_table(lines, ask.as_json, ALREADY)
    if lines and not ask.as_json:
        print_line(f"in all: {to_display(sum(line.amount_nano for line in outcome.moved.lines))}")
    print_unbooked(outcome, ask)


def _facts(line: LineRow, outcome: MoneyActionOutcome, ask: MoneyActionOptions) -> dict[str, Any]:
    nano = line.amount_nano
    amounts = {"amount": to_text(nano), "amount_nano": nano} if ask.as_json else {"amount": to_display(nano)}
    return {
        "line": line.seq if outcome.booked else None,
        "adjusts": line.adjusts_seq,
        "meter": line.meter,
        "quantity": line.quantity,
        **amounts,
        "state": outcome.state,
    }
