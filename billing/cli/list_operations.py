"""`parley operations`: what may be done here, by whom, and over which route."""

from typing import Any

import click

from billing.cli.run_command import json_option, show_table
from core.api_address import runs_over_api
from core.operations import Operation, Role, registered


@click.command("operations")
@click.option("--role", type=click.Choice([each.value for each in Role]), help="Only what this role may do.")
@json_option
@runs_over_api
def operations_command(role: str | None, as_json: bool) -> None:
    """List all operations: each is a command and a route of the API, with the roles that may."""
    every = [each for each in registered().values() if role is None or role in each.may]
    show_table([_facts(each, as_json) for each in every], as_json, "no operation fits")


def _facts(declared: Operation, as_json: bool) -> dict[str, Any]:
    roles = [role.value for role in Role if role in declared.may]
    facts: dict[str, Any] = {
        "operation": declared.name,
        "method": declared.method,
        "path": declared.path,
        "roles": roles if as_json else ", ".join(roles),
        "does": declared.sentence,
    }
    if not as_json:
        return facts
    return facts | {
        "kind": declared.kind.value,
        "audit": list(declared.audit),
        "reason": declared.reason,
        "edits": declared.edits,
        "reads": declared.uses.reads.split(),
        "writes": declared.uses.writes.split(),
        "keys": list(declared.uses.keys),
    }
