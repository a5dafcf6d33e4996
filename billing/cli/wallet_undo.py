"""`parley wallets void|claw-back|pay-out`: takes unused money out of a wallet again."""

from typing import Any

import click

from billing.cli.moves import MoneyMove, check_booked, moved, yes_option
from billing.cli.operations import REASON_NEEDED, CommandTerms, asks, facts_of
from billing.cli.run_command import show_table
from billing.operations import wallets
from billing.operations.wallets import ClawBack, PayOut, TakenMoney, VoidGrant

GRANT = ("grant",)
SAID = {"reason": REASON_NEEDED}


@click.command("void")
@yes_option
@asks(wallets.void_grant, arguments=GRANT, options=SAID)
def void_command(ask: VoidGrant, how: CommandTerms, yes: bool) -> None:
    """Take GRANT (its id or key) back as a mistake: all of it. One that paid for something is refused; claw
    back what is left of that.

    Money that running answers hold is not taken. What moves more than $1.00 (or what is set) is only
    shown without --yes.
    """
    _show(moved(wallets.void_grant, ask, how, yes), how)


@click.command("claw-back")
@yes_option
@asks(wallets.claw_back, arguments=GRANT, options=SAID)
def claw_back_command(ask: ClawBack, how: CommandTerms, yes: bool) -> None:
    """Take an amount out of GRANT (its id or key), at most what is left of it: a payment was reversed, or a
    promotion was too large. It goes back to where the grant came from.

    Money that running answers hold is not taken.
    """
    _show(moved(wallets.claw_back, ask, how, yes), how)


@click.command("pay-out")
@yes_option
@asks(wallets.pay_out, options=SAID)
def pay_out_command(ask: PayOut, how: CommandTerms, yes: bool) -> None:
    """Book what you pay back to a customer out of its wallet: at most what is left of paid grants, the newest
    first; promo money is not paid out. The payment itself you make by hand.

    Money that running answers hold is not taken.
    """
    _show(moved(wallets.pay_out, ask, how, yes), how)


def _show(move: MoneyMove[TakenMoney], how: CommandTerms) -> None:
    show_table(_facts(move, how.as_json), how.as_json, "nothing is taken")
    check_booked(move, how)


def _facts(move: MoneyMove[TakenMoney], as_json: bool) -> list[dict[str, Any]]:
    state = "taken" if move.booked else move.state
    if not move.answer.new:
        state = "was taken before: nothing is changed"
    return [{**facts_of(part, as_json), "state": state} for part in move.answer.parts]
