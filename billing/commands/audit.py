"""`parley audit`: proves that nobody changed the books."""

import sys
from typing import Any

import click

from billing.commands.running import json_option, progress, run_on_database, show_table, tenant_named
from billing.money import to_display
from billing.tenancy import list_tenants
from billing.verify import Verified, verify_books
from core.database import Database


@click.group("audit")
def audit_command() -> None:
    """Proof that the books are whole."""


@audit_command.command("verify")
@click.option("--tenant", help="Only this tenant (name or id).")
@json_option
def verify_command(tenant: str | None, as_json: bool) -> None:
    """Read all books from their first row: the hash chain, balances, lines and sums.

    One line a tenant. Exit code 1 where anything is wrong: what was found is printed. Keep the hash that is
    printed for each tenant somewhere else, and nobody can cut off the end of its books unseen.
    """

    async def verify(db: Database) -> list[Verified]:
        owners = [await tenant_named(db, tenant)] if tenant else await list_tenants(db)
        found: list[Verified] = []
        for owner in owners:
            progress(f"{owner.name}: reading")
            found.append(await verify_books(db, owner.tenant_id))
        progress("")
        return found

    found = run_on_database(verify)
    show_table([_facts(each, as_json) for each in found], as_json, "there are no tenants")
    for each in found:
        for fault in each.faults:
            click.echo(f"{each.tenant_id}: {fault}", err=True)
    if any(each.faults for each in found):
        sys.exit(1)


def _facts(verified: Verified, as_json: bool) -> dict[str, Any]:
    amount = verified.amount_nano
    money: dict[str, Any] = {"amount_nano": amount} if as_json else {"amount": to_display(amount)}
    facts = {
        "tenant": verified.tenant_id,
        "transactions": verified.txns,
        "lines": verified.lines,
        **money,
        "sha256": verified.sha256,
        "state": "wrong" if verified.faults else "whole",
    }
    return {**facts, "faults": verified.faults} if as_json else facts
