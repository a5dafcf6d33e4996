"""`parley approvals`: moves of money that need a second person."""

import sys
from typing import Any

import click

from billing.approvals import proposals
from billing.approvals.proposed_operations import about, kind_text
from billing.approvals.second_person import shown_second
from billing.cli.operations import check_announced, in_stores
from billing.cli.run_command import iso_time, json_option, show, show_table
from billing.money import to_display
from billing.tables.approvals import Proposal
from billing.tenants.tenancy import tenant_names
from billing.unit_of_work.units import Stores
from core.clock import now_ms
from core.errors import StartupError
from core.terminal.terminal import prompt_secret

_proposal = click.argument("proposal")


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
@click.option("--all", "ended", is_flag=True, help="Those that ended too, newest first.")
@json_option
def list_command(ended: bool, as_json: bool) -> None:
    """The proposals that wait for their code, oldest first."""

    async def read(stores: Stores) -> list[dict[str, Any]]:
        found = await proposals.list_proposals(stores.db, ended)
        names = await tenant_names(stores.db)
        return [_facts(row, names.get(row.tenant_id, row.tenant_id), as_json) for row in found]

    show_table(in_stores(read), as_json, "nothing waits for a second person")


@approvals_command.command("approve")
@_proposal
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
    show({"proposal": row.id, "kind": _kind(row, as_json), **amount, "done": "booked"}, as_json)


@approvals_command.command("reject")
@_proposal
@click.option("--reason", required=True, help="Why; kept with it and in the audit log.")
@json_option
def reject_command(proposal: str, reason: str, as_json: bool) -> None:
    """End PROPOSAL (its id): its code is good for nothing any more."""
    row = in_stores(lambda stores: proposals.reject(stores.db, proposal, reason))
    show({"proposal": row.id, "kind": _kind(row, as_json), "done": "rejected"}, as_json)


def _kind(row: Proposal, as_json: bool) -> str:
    return row.kind if as_json else kind_text(row.kind)


def _facts(row: Proposal, tenant: str, as_json: bool) -> dict[str, Any]:
    amount: dict[str, Any] = (
        {"amount_nano": row.amount_nano} if as_json else {"amount": to_display(row.amount_nano)}
    )
    return {
        "proposal": row.id,
        "tenant": tenant,
        "kind": _kind(row, as_json),
        **amount,
        "about": about(row),
        "author": row.author,
        "second": shown_second(row.second),
        "made": iso_time(row.created_ms),
        "until": iso_time(row.expires_ms),
        "state": proposals.state_of(row, now_ms()),
        "why": row.why,
    }
