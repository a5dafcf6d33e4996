"""`parley approvals`: moves of money that need a second person."""

import sys
from typing import Any

import click

from billing.approvals import proposals
from billing.approvals.proposed_operations import kind_text
from billing.cli.operations import (
    REASON_NEEDED,
    CommandTerms,
    answered,
    asks,
    check_announced,
    facts_of,
    in_stores,
)
from billing.cli.run_command import json_option, show, show_table
from billing.money import to_display
from billing.operations import approvals
from billing.operations.approvals import ListProposals, NameProposal
from billing.tables.approvals import Proposal
from billing.unit_of_work.units import Stores
from core.errors import StartupError
from core.terminal.terminal import prompt_secret


@click.group("approvals")
def approvals_command() -> None:
    """Moves of money that one person may not make alone: what waits, approving and rejecting it.

    A correction, refund, grant, void, claw-back or pay-out above PARLEY_CORRECTION_CENTS_MAX is proposed, and
    a code goes to the second person alone (PARLEY_SECOND_PERSON: a mail address, or a webhook). It is good
    for 30 minutes, for that very proposal, once.

    \b
        parley wallets pay-out --tenant acme --amount "800 USD" --key p1 --reason "left us" --yes
        parley approvals list
        parley approvals approve ID        asks for the code
    """


@approvals_command.command("list")
@asks(approvals.list_proposals, options={"ended": {"names": ["--all"]}})
def list_command(ask: ListProposals, how: CommandTerms) -> None:
    """The proposals that wait for their code, oldest first."""
    page = answered(approvals.list_proposals, ask, how)
    rows = [facts_of(each, how.as_json) | _kind(each.kind, how.as_json) for each in page.items]
    show_table(rows, how.as_json, "nothing waits for a second person")


@approvals_command.command("approve")
@click.argument("proposal")
@click.option("--code", help="By default it is asked for at the terminal, and not shown.")
@json_option
def approve_command(proposal: str, code: str | None, as_json: bool) -> None:
    """Book PROPOSAL (its id), with the code that the second person got. It is looked at again first: what is
    no longer as it was proposed is not booked. After five wrong codes it is over. One that stays `approved`
    was cut off: approve it again with its code, nothing is booked twice."""

    if code is None and not sys.stdin.isatty():
        raise StartupError("there is no terminal to ask for the code at: give --code")
    typed = prompt_secret("Code") if code is None else code

    async def perform(stores: Stores) -> Proposal:
        row, done = await proposals.approve(stores, proposal, typed)
        check_announced(done, stores.settings)
        return row

    row = in_stores(perform)
    nano = row.amount_nano
    amount: dict[str, Any] = {"amount_nano": nano} if as_json else {"amount": to_display(nano)}
    show({"proposal": row.id, **_kind(row.kind, as_json), **amount, "done": "booked"}, as_json)


@approvals_command.command("reject")
@asks(approvals.reject_proposal, arguments=("proposal",), options={"reason": REASON_NEEDED})
def reject_command(ask: NameProposal, how: CommandTerms) -> None:
    """End PROPOSAL (its id): its code is good for nothing any more."""
    ended = answered(approvals.reject_proposal, ask, how)
    show(
        {"proposal": ended.proposal, **_kind(ended.kind, how.as_json), "done": "rejected"},
        how.as_json,
    )


def _kind(kind: str, as_json: bool) -> dict[str, str]:
    return {"kind": kind if as_json else kind_text(kind)}
