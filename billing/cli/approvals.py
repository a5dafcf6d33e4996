"""`parley approvals`: moves of money that need a second person."""

from typing import Any

import click

from billing.approvals.proposed_operations import kind_text
from billing.cli.operations import (
    REASON_NEEDED,
    CommandTerms,
    all_pages,
    answered,
    asks,
    facts_of,
    in_stores,
)
from billing.cli.performers import check_announced
from billing.cli.person_sign_in import person_at_terminal
from billing.cli.run_command import json_option, show, show_table
from billing.money import to_display
from billing.operations import approvals
from billing.operations.approvals import ListProposals, NameProposal, ProposalFacts
from billing.unit_of_work.perform import perform
from billing.unit_of_work.units import Stores
from core.errors import StartupError
from core.operations import operation_of
from core.terminal.terminal import has_terminal


@click.group("approvals")
def approvals_command() -> None:
    """Moves of money that one person may not make alone: what waits, approving and rejecting it.

    A correction, refund, grant, void, claw-back or pay-out above PARLEY_CORRECTION_CENTS_MAX is proposed, and
    another owner or finance person approves it within 30 minutes: in the console, or here with their own
    e-mail and password. Where there is none it is refused: invite one (`parley people invite`).

    \b
        parley wallets pay-out --tenant acme --amount "800 USD" --key p1 --reason "left us" --yes
        parley approvals list
        parley approvals approve ID        asks the second person to sign in
    """


@approvals_command.command("list")
@asks(approvals.list_proposals, options={"ended": {"names": ["--all"]}}, omitted=("limit", "after"))
def list_command(ask: ListProposals, how: CommandTerms) -> None:
    """The proposals that wait for a second person, oldest first."""
    found = all_pages(approvals.list_proposals, ask, how)
    rows = [facts_of(each, how.as_json) | _kind(each.kind, how.as_json) for each in found]
    show_table(rows, how.as_json, "nothing waits for a second person")


@approvals_command.command("approve")
@click.argument("proposal")
@json_option
def approve_command(proposal: str, as_json: bool) -> None:
    """Book PROPOSAL (its id). Another person than who proposed it, an owner or of finance, signs in for this
    at the terminal: e-mail, password, and the code of their second factor where they have one.

    It is looked at again first: what is no longer as it was proposed is not booked."""
    if not has_terminal():
        raise StartupError("there is no terminal to ask the second person at")
    done = in_stores(lambda stores: _approved(stores, proposal))
    nano = done.amount.value
    amount: dict[str, Any] = {"amount_nano": nano} if as_json else {"amount": to_display(nano)}
    show({"proposal": proposal, **_kind(done.kind, as_json), **amount, "done": "booked"}, as_json)


async def _approved(stores: Stores, proposal: str) -> ProposalFacts:
    async with person_at_terminal(stores, "parley approvals approve") as who:
        ask = NameProposal(proposal=proposal)
        done = await perform(stores, who, operation_of(approvals.approve_proposal), ask)
    check_announced(done, stores.settings)
    return done.answer


@approvals_command.command("reject")
@asks(approvals.reject_proposal, arguments=("proposal",), options={"reason": REASON_NEEDED})
def reject_command(ask: NameProposal, how: CommandTerms) -> None:
    """End PROPOSAL (its id), with a reason. Whoever proposed it may, too."""
    ended = answered(approvals.reject_proposal, ask, how)
    show(
        {"proposal": ended.proposal, **_kind(ended.kind, how.as_json), "done": "rejected"},
        how.as_json,
    )


def _kind(kind: str, as_json: bool) -> dict[str, str]:
    return {"kind": kind if as_json else kind_text(kind)}
