"""`parley wallets void|claw-back|pay-out`: takes unused money out of a wallet again."""

import click

from billing.approvals.money_actions import UndoAction
from billing.cli.arguments import nano_of
from billing.cli.money_actions import (
    MoneyActionOptions,
    MoneyActionOutcome,
    dry_run_option,
    key_option,
    print_unbooked,
    reason_option,
    run_money_action,
    yes_option,
)
from billing.cli.run_command import json_option, show_table
from billing.money import to_display
from billing.wallets.undo import UndoKind

_tenant = click.option("--tenant", required=True, help="The tenant's name or id.")
_grant = click.argument("grant")
_amount = click.option("--amount", required=True, help="Like '250.00 USD'; at most nine decimals.")


@click.command("void")
@_tenant
@_grant
@reason_option
@dry_run_option
@yes_option
@json_option
def void_command(tenant: str, grant: str, reason: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take GRANT (its id or key) back as a mistake: all of it. One that paid for something is refused; claw
    back what is left of that.

    Money that running answers hold is not taken. What moves more than $1.00 (or what is set) is only
    shown without --yes.
    """
    _undo(tenant, UndoAction(UndoKind.VOID, reason, grant), MoneyActionOptions(dry_run, yes, as_json))


@click.command("claw-back")
@_tenant
@_grant
@_amount
@key_option
@reason_option
@dry_run_option
@yes_option
@json_option
def claw_back_command(
    tenant: str, grant: str, amount: str, key: str, reason: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Take an amount out of GRANT (its id or key), at most what is left of it: a payment was reversed, or a
    promotion was too large. It goes back to where the grant came from.

    Money that running answers hold is not taken.
    """
    move = UndoAction(UndoKind.CLAW_BACK, reason, grant, nano_of(amount), key)
    _undo(tenant, move, MoneyActionOptions(dry_run, yes, as_json))


@click.command("pay-out")
@_tenant
@_amount
@key_option
@reason_option
@dry_run_option
@yes_option
@json_option
def pay_out_command(
    tenant: str, amount: str, key: str, reason: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Book what you pay back to a customer out of its wallet: at most what is left of paid grants, the newest
    first; promo money is not paid out. The payment itself you make by hand.

    Money that running answers hold is not taken.
    """
    move = UndoAction(UndoKind.PAY_OUT, reason, "", nano_of(amount), key)
    _undo(tenant, move, MoneyActionOptions(dry_run, yes, as_json))


def _undo(tenant: str, move: UndoAction, ask: MoneyActionOptions) -> None:
    outcome = run_money_action(tenant, move, ask)
    show_table(_facts(outcome, ask.as_json), ask.as_json, "nothing is taken")
    print_unbooked(outcome, ask)


def _facts(outcome: MoneyActionOutcome, as_json: bool) -> list[dict[str, int | str]]:
    state = "taken" if outcome.booked else outcome.state
    if outcome.moved.done:
        state = "was taken before: nothing is changed"
    taken = outcome.moved.taken
    return [
        {
            "grant": grant.id,
            "key": grant.idempotency_key,
            "kind": grant.kind,
            **({"taken_nano": amount} if as_json else {"taken": to_display(amount)}),
            "state": state,
        }
        for grant, amount in (taken.parts if taken else ())
    ]
